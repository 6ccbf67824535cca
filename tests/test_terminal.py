"""Tables for a terminal, by hand."""

from taciturn.terminal import aligned, filled

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


def test_the_names_of_the_columns_have_a_line_below_them() -> None:
    assert aligned([("name", "value"), ("b", "2")], ruled=True).splitlines() == ["name  value", "─" * 11, "b     2"]


def test_intervals_go_below_their_means_then_become_half_widths_then_words_are_broken() -> None:
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


def test_no_line_is_wider_than_the_window_and_no_letter_is_lost() -> None:
    letters = sorted(letter for row in ROWS for letter in filter(str.isalpha, "".join(row)))
    texts = {width: aligned(ROWS, numbers={1}, width=width, ruled=True) for width in range(4, 60)}
    assert not [width for width, text in texts.items() if max(map(len, text.splitlines())) > width]
    assert not [width for width, text in texts.items() if sorted(filter(str.isalpha, text)) != letters]
