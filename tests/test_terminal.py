"""Tables for a terminal, by hand."""

import re

import pytest

from taciturn.terminal import aligned, filled, narrowest

ROWS = [
    ("name", "value"),
    ("a well-known name", "1,300 [1,234.5, 1,365.5]"),
    ("b", "2"),
]


def test_columns_are_aligned_and_texts_between_rows_are_lines() -> None:
    assert aligned(["Title", ("a", "1"), "", ("bcd", "10")], numbers={1}, indent=2).splitlines() == [
        "Title",
        "  a     1",
        "",
        "  bcd  10",
    ]
    assert aligned([("", "")]) == aligned([]) == ""


DOC = """Title
    A first sentence that is long enough to fill the line of a docstring up to its margin, where the source has been
    broken, so that the window must not break it again.
    A short one.

        index = mean + bonus

    - one: an item whose text is longer than the window
    - two: short"""


def test_texts_are_filled_once() -> None:
    """Lines that a source file has broken are joined before they are broken for the window; others stay."""
    assert filled(DOC, 44) == [
        "Title",
        "    A first sentence that is long enough to",
        "    fill the line of a docstring up to its",
        "    margin, where the source has been",
        "    broken, so that the window must not",
        "    break it again.",
        "    A short one.",
        "",
        "        index = mean + bonus",
        "",
        "    - one: an item whose text is longer than",
        "      the window",
        "    - two: short",
    ]
    assert "\n".join(filled(DOC, 120)) == DOC


def test_an_argument_of_one_line_is_continued_as_in_a_docstring() -> None:
    assert filled("Args:\n    alpha: a sentence that is too long", 24) == [
        "Args:",
        "    alpha: a sentence",
        "        that is too long",
    ]
    assert filled("Text: a sentence that is too long", 24) == ["Text: a sentence that is", "too long"]


def test_the_names_of_the_columns_have_a_line_below_them() -> None:
    assert aligned([("name", "value"), ("b", "2")], ruled=True).splitlines() == ["name  value", "─" * 11, "b     2"]


def test_intervals_go_below_their_means_then_become_half_widths_then_texts_are_broken() -> None:
    assert "1,300 [1,234.5, 1,365.5]" in aligned(ROWS, numbers={1}, width=43)
    assert aligned(ROWS, numbers={1}, width=42).splitlines()[1:3] == [
        "a well-known name               1,300",
        "                   [1,234.5, 1,365.5]",
    ]
    assert aligned(ROWS, numbers={1}, width=27).splitlines()[1:4] == [
        "a well-known name  1,300",
        "                     ±66",
        "b                      2",
    ]
    assert aligned(ROWS, numbers={1}, width=18).splitlines()[1:4] == [
        "a            1,300",
        "well-known     ±66",
        "name",
    ]


def test_rows_whose_words_do_not_fit_become_paragraphs() -> None:
    rows = ["Title", ("name", "value", ""), ("a well-known name", "1,300 [1,234.5, 1,365.5]", "x"), ("b", "2", "")]
    assert aligned(rows, numbers={1}, width=19, ruled=True, indent=1).splitlines() == [
        "Title",
        " name: a well-known",
        "   name · value:",
        "   1,300 [1,234.5,",
        "   1,365.5] · x",
        "",
        " name: b · value: 2",
    ]
    assert aligned([("a_long_name", "two words"), ("b", "c")], width=14, indent=2).splitlines() == [
        "  a_long_name",
        "    two words",
        "  b",
        "    c",
    ]


@pytest.mark.parametrize("ruled", [True, False])
def test_only_a_word_wider_than_the_window_is_broken(ruled: bool) -> None:
    words = set(re.findall(r"[a-z-]{2,}", " ".join(" ".join(row) for row in ROWS)))
    longest = max(map(len, words))
    for width in range(4, 60):
        text = aligned(ROWS, numbers={1}, width=width, ruled=ruled)
        assert max(map(len, text.splitlines())) <= width
        assert set(filter(str.isalpha, text)) == set("nameavalueawell-knownnameb") - {"-"}, "no letter is lost"
        assert (set(re.findall(r"[a-z-]{2,}", text)) == words) is (width >= longest + 2), "the margin is 2"


def test_the_narrowest_window_has_whole_intervals() -> None:
    width = narrowest(ROWS, {1})
    assert "[1,234.5, 1,365.5]" in aligned(ROWS, numbers={1}, width=width)
    assert "[1,234.5, 1,365.5]" not in aligned(ROWS, numbers={1}, width=width - 1)
