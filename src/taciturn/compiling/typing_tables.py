"""Numba's types of tables (`taciturn.compiling.tables`) in compiled functions; importing this module imports Numba.

`arrays.preference` becomes a load of an address from a local copy of the table.
"""

import hashlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from taciturn.compiling.tables import WORD, Arrays, Layout, Named, Number, places, size_of

LONG = ir.IntType(64)
NONE = ir.Constant(LONG, 0)


def named(kind: str, *what: Any) -> str:
    """The name of a type, which Numba compares types by; short, because names of functions contain it."""
    return f"{kind}{hashlib.sha256(repr(what).encode()).hexdigest()[:12]}"


class Part(types.Type):
    """A table, or a named part of one.

    Args:
        layout: the layout of its parts.
        alone: whether arrays are the arrays of one replica, without their first axis.
        hidden: names of parts that may not be used.
    """

    def __init__(self, layout: Named, alone: bool = False, hidden: frozenset[str] = frozenset()) -> None:
        self.layout, self.alone, self.hidden = layout, alone, hidden
        self.places = {name: place for name, place in places(layout).items() if name not in hidden}
        super().__init__(named("Part", layout, alone, sorted(hidden)))

    def type_of(self, name: str) -> Any:
        return type_of(self.places[name][1], int(self.alone)) if name in self.places else None


class Visible(types.Type):
    """The data that an agent may observe: its entries of the arrays `rows`, the arrays `whole`, and `numbers` of the
    state.

    Attributes:
        values: the types of the numbers among them, which are read when an observation begins.
    """

    def __init__(self, part: Part, state: Any, rows: tuple[str, ...], whole: tuple[str, ...], numbers: tuple[str, ...]):
        self.part, self.rows, self.whole = part, rows, whole
        entries = {name: type_of(part.places[name][1], 2) for name in rows}
        self.entries = {name: kind for name, kind in entries.items() if not isinstance(kind, types.Array)}
        self.numbers = {name: state.typeof(name) for name in numbers}
        self.values = {"agent": types.int64} | self.entries | self.numbers
        super().__init__(named("Visible", part, state, rows, whole, numbers))

    def type_of(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.rows:
            return type_of(self.part.places[name][1], 2)
        return self.part.type_of(name) if name in self.whole else None


def type_of(layout: Layout, picked: int = 0) -> Any:
    """Numba's type for a layout; arrays lose their first `picked` dimensions."""
    if isinstance(layout, Number):
        return from_dtype(layout.dtype)
    if isinstance(layout, Named):
        return Part(layout, bool(picked))
    item, dims = from_dtype(layout.dtype), layout.dims - picked
    return types.Array(item, dims, "C") if dims else item


@register_model(Part)
class PartModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("at", types.voidptr), ("replica", types.int64)])


@register_model(Visible)
class SightModel(models.StructModel):
    def __init__(self, manager: Any, kind: Visible) -> None:
        values = [(f"value_{name}", value) for name, value in kind.values.items()]
        super().__init__(manager, kind, [("part", kind.part), *values])


@infer_getattr
class PartAttributes(AttributeTemplate):
    key = Part

    def generic_resolve(self, kind: Part, name: str) -> Any:  # type: ignore[override]
        return kind.type_of(name)


@infer_getattr
class SightAttributes(AttributeTemplate):
    key = Visible

    def generic_resolve(self, kind: Visible, name: str) -> Any:  # type: ignore[override]
        return kind.type_of(name)


def load_word(builder: Any, at: Any, word: int, kind: Any) -> Any:
    """Load a word."""
    place = builder.gep(builder.bitcast(at, LONG.as_pointer()), [ir.Constant(LONG, word)])
    return builder.load(builder.bitcast(place, kind.as_pointer()))


def load_array(
    context: Any, builder: Any, at: Any, word: int, layout: Arrays, picks: Sequence[Callable[[Any], Any] | Any]
) -> Any:
    """Load an array, or its part at the indices `picks` of its leading dimensions (an index, or a function of the
    dimension's size); if no dimension is left, a number."""
    item, size = from_dtype(layout.dtype), ir.Constant(LONG, layout.dtype.itemsize)
    shape = [load_word(builder, at, word + 1 + d, LONG) for d in range(layout.dims)]
    strides = [size]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    data = load_word(builder, at, word, LONG)
    for pick, length, stride in zip(picks, shape, strides, strict=False):
        data = builder.add(data, builder.mul(pick(length) if callable(pick) else pick, stride))
    pointer = builder.inttoptr(data, context.get_data_type(item).as_pointer())
    some = len(picks)
    if some == layout.dims:
        return context.unpack_value(builder, item, pointer)
    array = make_array(types.Array(item, layout.dims - some, "C"))(context, builder)
    populate_array(array, pointer, shape[some:], strides[some:], size, None)
    return array._getvalue()


def load(context: Any, builder: Any, at: Any, word: int, layout: Layout, replica: Any = None) -> Any:
    """Load a value with that layout that begins at `word`; if a replica is given, its part of an array."""
    if isinstance(layout, Number):
        model = context.data_model_manager[from_dtype(layout.dtype)]
        return model.from_data(builder, load_word(builder, at, word, model.get_data_type()))
    if isinstance(layout, Named):
        inner = builder.gep(at, [ir.Constant(LONG, word * WORD)])
        return part_at(context, builder, Part(layout), inner, NONE)
    return load_array(context, builder, at, word, layout, [] if replica is None else [replica])


def part_at(context: Any, builder: Any, kind: Part, at: Any, replica: Any) -> Any:
    made = cgutils.create_struct_proxy(kind)(context, builder)
    made.at, made.replica = at, replica
    return made._getvalue()


@lower_getattr_generic(Part)
def get_from_part(context: Any, builder: Any, kind: Part, value: Any, name: str) -> Any:
    part = cgutils.create_struct_proxy(kind)(context, builder, value=value)
    return load(context, builder, part.at, *kind.places[name], part.replica if kind.alone else None)


@lower_getattr_generic(Visible)
def get_from_visible(context: Any, builder: Any, kind: Visible, value: Any, name: str) -> Any:
    visible = cgutils.create_struct_proxy(kind)(context, builder, value=value)
    if name in kind.values:
        return getattr(visible, f"value_{name}")
    if name in kind.whole:
        return get_from_part(context, builder, kind.part, visible.part, name)
    return load_entry(context, builder, kind, visible.part, visible.value_agent, name)


def load_entry(context: Any, builder: Any, kind: Visible, part: Any, agent: Any, name: str) -> Any:
    """Load the agent's entry of an array, or the only one."""

    def entry(length: Any) -> Any:
        last = builder.sub(length, ir.Constant(LONG, 1))
        return builder.select(builder.icmp_signed("<", agent, last), agent, last)

    arrays = cgutils.create_struct_proxy(kind.part)(context, builder, value=part)
    word, layout = kind.part.places[name]
    assert isinstance(layout, Arrays)
    return load_array(context, builder, arrays.at, word, layout, [arrays.replica, entry])


def unpacker(layout: Named) -> Any:
    """A compiled function that makes a table from its address."""
    kind = Part(layout)

    @intrinsic
    def unpack(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            # Load it into a local copy, which LLVM keeps in registers once all functions are inlined.
            size = size_of(layout)
            words = cgutils.alloca_once(builder, ir.ArrayType(LONG, size))
            given = builder.inttoptr(values[0], words.type)
            cgutils.raw_memcpy(builder, words, given, ir.Constant(LONG, size), ir.Constant(LONG, WORD))
            return part_at(context, builder, kind, builder.bitcast(words, cgutils.voidptr_t), NONE)

        return kind(types.int64), generate

    return unpack


@intrinsic
def own(typing: Any, arrays: Any, i: Any) -> Any:
    """See `taciturn.compiling.compiled.own`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        part = cgutils.create_struct_proxy(arrays)(context, builder, value=values[0])
        replica = context.cast(builder, values[1], i, types.int64)
        return part_at(context, builder, signature.return_type, part.at, replica)

    return Part(arrays.layout, True)(arrays, i), generate


def without(hidden: frozenset[str]) -> Any:
    """A compiled function that makes the part of a table without these names."""

    @intrinsic
    def public(typing: Any, params: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            part = cgutils.create_struct_proxy(params)(context, builder, value=values[0])
            return part_at(context, builder, signature.return_type, part.at, part.replica)

        return Part(params.layout, False, hidden)(params), generate

    return public


def visible_of(rows: tuple[str, ...], whole: tuple[str, ...], numbers: tuple[str, ...]) -> Any:
    """A compiled function that makes the data an agent may observe; see `Visible`."""

    @intrinsic
    def visible(typing: Any, state: Any, arrays: Any, agent: Any) -> Any:
        kind = Visible(arrays, state, rows, whole, numbers)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = cgutils.create_struct_proxy(kind)(context, builder)
            made.part, made.value_agent = values[1], context.cast(builder, values[2], agent, types.int64)
            for name in kind.numbers:
                get = context.get_getattr(state, name)
                setattr(made, f"value_{name}", get(context, builder, state, values[0], name))
            for name in kind.entries:
                setattr(made, f"value_{name}", load_entry(context, builder, kind, values[1], made.value_agent, name))
            return made._getvalue()

        return kind(state, arrays, agent), generate

    return visible


@intrinsic
def wide(typing: Any, a: Any, b: Any) -> Any:
    """See `taciturn.compiling.counter_streams.wide`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        long = ir.IntType(128)
        given = [context.cast(builder, value, kind, types.uint64) for value, kind in zip(values, (a, b), strict=True)]
        product = builder.mul(*(builder.zext(value, long) for value in given))
        upper = builder.trunc(builder.lshr(product, ir.Constant(long, 64)), LONG)
        return context.make_tuple(builder, signature.return_type, (upper, builder.trunc(product, LONG)))

    return types.UniTuple(types.uint64, 2)(a, b), generate


@intrinsic
def plus(typing: Any, a: Any, b: Any) -> Any:
    """See `taciturn.compiling.counter_streams.plus`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.add(
            *(context.cast(builder, value, kind, types.uint64) for value, kind in zip(values, (a, b), strict=True))
        )

    return types.uint64(a, b), generate


@intrinsic
def take(typing: Any, rows: Any, i: Any) -> Any:
    """See `taciturn.compiling.compiled.take`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        getter = context.get_function(operator.getitem, rows.dtype(rows, types.int64))
        return getter(builder, (values[0], context.cast(builder, values[1], i, types.int64)))

    return rows.dtype(rows, i), generate


@intrinsic
def keep(typing: Any, rows: Any, i: Any, state: Any) -> Any:
    """Does nothing: `take` gives the numbers themselves."""
    return types.void(rows, i, state), lambda context, *given: context.get_dummy_value()
