"""Tables: the argument of a compiled loop as one array of words, which holds numbers, and the addresses and shapes of
arrays.

A compiled function gets a table, or a part of one, as two numbers, however many arrays there are.
"""

from typing import Any, NamedTuple

import numpy as np

from taciturn.validation import Array

WORD = 8  # bytes


class Number(NamedTuple):
    """The layout of a number."""

    dtype: Any


class Arrays(NamedTuple):
    """The layout of an array: a word for its address, and one for each of its dimensions."""

    dtype: Any
    dims: int


class Named(NamedTuple):
    """The layout of a NamedTuple."""

    parts: tuple[tuple[str, Any], ...]


Layout = Number | Arrays | Named


def layout_of(value: Any) -> Layout:
    """The layout of a number, an array, or a NamedTuple of these; equal for values of equal types.

    Raises:
        TypeError: anything else.
    """
    if isinstance(value, np.ndarray) and value.flags.c_contiguous:
        return Arrays(value.dtype, value.ndim)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Named(tuple((name, layout_of(one)) for name, one in zip(value._fields, value, strict=True)))
    for kinds, dtype in (
        ((bool, np.bool_), np.bool_),
        ((int, np.integer), np.int64),
        ((float, np.floating), np.float64),
    ):
        if isinstance(value, kinds):
            return Number(np.dtype(dtype))
    raise TypeError(
        f"arguments of a compiled function must be numbers, contiguous arrays and NamedTuples of them, not {value!r}"
    )


def size_of(layout: Layout) -> int:
    """The number of words of a layout."""
    if isinstance(layout, Arrays):
        return 1 + layout.dims
    if isinstance(layout, Named):
        return sum(size_of(one) for _, one in layout.parts)
    return 1


def places(layout: Named) -> dict[str, tuple[int, Layout]]:
    """The first word and the layout of each part, by its name."""
    result, word = {}, 0
    for name, one in layout.parts:
        result[name] = word, one
        word += size_of(one)
    return result


class Table:
    """The table of a NamedTuple.

    Attributes:
        words: int64, two more than the layout has.
        address: the address of its words.
        returned, error: the addresses of the last two words, for the results of a compiled function.
    """

    def __init__(self, given: Any) -> None:
        self._layouts, self._starts, size = [layout_of(value) for value in given], [], 0
        for layout in self._layouts:
            self._starts.append(size)
            size += size_of(layout)
        self.words = np.zeros(size + 2, np.int64)
        self.address: int = self.words.ctypes.data
        self.returned, self.error = self.address + WORD * size, self.address + WORD * (size + 1)
        self._given: Any = (None,) * len(given)
        self.enter(given)

    def enter(self, given: Any) -> None:
        """Enter values of the same layouts."""
        for i, (old, new) in enumerate(zip(self._given, given, strict=True)):
            if old is not new:
                _write(self.words, self._starts[i], self._layouts[i], new)
        self._given = given  # keeps the arrays alive at their addresses


def _write(words: Array, word: int, layout: Layout, value: Any) -> int:
    """Write a value to the words from `word` on, and return the next word."""
    if isinstance(layout, Arrays):
        words[word] = value.ctypes.data
        for size in value.shape:
            word += 1
            words[word] = size
        return word + 1
    if isinstance(layout, Number):
        words[word : word + 1].view(layout.dtype)[0] = value
        return word + 1
    for (_, part), one in zip(layout.parts, value, strict=True):
        word = _write(words, word, part, one)
    return word
