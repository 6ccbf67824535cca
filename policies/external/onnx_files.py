"""Resource limits for networks in the ONNX format: a few bytes can ask for any amount, in some cases only at run
time."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from taciturn import files

MOST_MEMORY = 2**30
"""Bytes for weights and computations of all networks together."""
MOST_FILE = 2 * 10**9
"""Most bytes in a file; Protocol Buffers files have fewer than 2**31."""
# The field numbers of messages in `onnx.proto`, and the types of these messages. None: a sparse tensor, which
# onnxruntime makes dense outside the bounded memory.
MESSAGES: dict[str, dict[int, str | None]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 15: None},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph", 22: None, 23: None},
}


@cache
def bound_memory() -> None:
    """Let onnxruntime take at most `MOST_MEMORY` bytes, in sessions with `session.use_env_allocators`."""
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    onnxruntime.create_and_register_allocator(memory, onnxruntime.OrtArenaCfg(MOST_MEMORY, -1, -1, -1))


def check(file: Path) -> None:
    """Raise ValueError if a file is not in the ONNX format, or has sparse tensors; OSError if it cannot be read."""
    left = [("model", memoryview(files.content(file, MOST_FILE)))]
    while left:
        kind, message = left.pop()
        for number, inner in fields(message):
            if number in MESSAGES[kind]:
                below = MESSAGES[kind][number]
                if below is None:
                    raise ValueError("it must have no sparse tensors, which can stand for any number of bytes")
                left.append((below, inner))


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """`(number, content)` of the length-delimited fields of a Protocol Buffers message; ValueError if it is not one."""
    place, end = 0, len(message)
    while place < end:
        tag, place = varint(message, place)
        tag &= 2**32 - 1  # as its readers do
        if tag & 7 == 0:
            _, place = varint(message, place)
        elif tag & 7 == 2:
            size, start = varint(message, place)
            place = start + size
            yield tag >> 3, message[start:place]
        elif tag & 7 in (1, 5):
            place += 8 if tag & 7 == 1 else 4
        else:
            raise ValueError("it is not in the ONNX format")
    if place > end:
        raise ValueError("it ends too early")


def varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number, and the index after it; ValueError if it does not end."""
    number = 0
    for i, byte in enumerate(message[place : place + 10]):
        number |= (byte & 127) << 7 * i
        if byte < 128:
            return number, place + i + 1
    raise ValueError("it is not in the ONNX format")
