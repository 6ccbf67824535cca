"""Tables: what a compiled loop is given, as one array of words, which holds numbers, and the addresses and shapes of
arrays.

A compiled function that is passed a table, or a part of one, is passed two numbers, however many arrays there are.
"""

from typing import Any, NamedTuple

import numpy as np

from taciturn.validation import Array

WORD = 8  # bytes
SPARE = 2  # words behind a table, for what a compiled function returns


class Number(NamedTuple):
    """The layout of a number."""

    dtype: Any


class Arrays(NamedTuple):
    """The layout of an array: a word for its address, and one for each of its dimensions."""

    dtype: Any
    dims: int


class Several(NamedTuple):
    """The layout of a tuple."""

    parts: tuple[Any, ...]


class Named(NamedTuple):
    """The layout of a NamedTuple."""

    parts: tuple[tuple[str, Any], ...]


Layout = Number | Arrays | Several | Named


def layout_of(value: Any) -> Layout:
    """The layout of a number, an array, or a tuple or NamedTuple of these; equal for values of equal types.

    Raises:
        TypeError: anything else.
    """
    if isinstance(value, np.ndarray):
        return Arrays(value.dtype, value.ndim)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Named(tuple((name, layout_of(one)) for name, one in zip(value._fields, value, strict=True)))
    if isinstance(value, tuple):
        return Several(tuple(map(layout_of, value)))
    for kinds, dtype in (((bool, np.bool_), np.bool_), ((int, np.integer), np.int64), ((float, np.floating), np.float64)):
        if isinstance(value, kinds):
            return Number(np.dtype(dtype))
    raise TypeError(f"what a compiled function is given must be numbers, arrays and tuples of them, not {value!r}")


def size_of(layout: Layout) -> int:
    """The number of words of a layout."""
    if isinstance(layout, Arrays):
        return 1 + layout.dims
    if isinstance(layout, Several):
        return sum(map(size_of, layout.parts))
    if isinstance(layout, Named):
        return sum(size_of(one) for _, one in layout.parts)
    return 1


def places(layout: Named) -> dict[str, tuple[int, Layout]]:
    """The first word and the layout of each part, by its name."""
    found, word = {}, 0
    for name, one in layout.parts:
        found[name] = word, one
        word += size_of(one)
    return found


class Table:
    """The table of a NamedTuple.

    Attributes:
        words: int64[...].
        address: of the words.
    """

    def __init__(self, given: Any) -> None:
        self.layout: Any = layout_of(given)
        self._places = places(self.layout)
        size = size_of(self.layout)
        self.words = np.zeros(size + SPARE, np.int64)
        self.address: int = self.words.ctypes.data
        self.returned, self.error = self.address + WORD * size, self.address + WORD * (size + 1)
        self._kept: dict[str, Any] = {}
        for name, value in zip(given._fields, given, strict=True):
            self.put(name, value)

    def put(self, name: str, value: Any) -> None:
        """Enter another value of the same layout."""
        if self._kept.get(name) is not value:
            word, layout = self._places[name]
            self._kept[name] = value  # so that its address stays its own
            _write(self.words, word, layout, value)


def _write(words: Array, word: int, layout: Layout, value: Any) -> int:
    """Write a value to the words from `word` on, and return the word behind it."""
    if isinstance(layout, Arrays):
        if not value.flags.c_contiguous:
            raise TypeError("arrays that compiled functions are given must be contiguous")
        words[word] = value.ctypes.data
        words[word + 1 : word + 1 + layout.dims] = value.shape
        return word + 1 + layout.dims
    if isinstance(layout, Number):
        words[word : word + 1].view(layout.dtype)[0] = value
        return word + 1
    parts = layout.parts if isinstance(layout, Several) else tuple(one for _, one in layout.parts)
    for part, one in zip(parts, value, strict=True):
        word = _write(words, word, part, one)
    return word
