"""Observations and actions: a flat Box with named fields, and roles."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from taciturn.validation import Array, array_of

FEW_ACTIONS = 32  # up to this many, the number of calls costs more than the number of passes


class Layout:
    """A flat Box with named fields: `Layout(k=(1, 0, 100), counts=(5, 0, 1))`, each `(size, low, high)`.

    Bounds are finite; `pack` clips to them, so an observation always lies in its space.
    """

    def __init__(self, **fields: tuple[int, float, float]) -> None:
        self.fields = fields
        self.slices: dict[str, slice] = {}
        stop = 0
        for name, (size, low, high) in fields.items():
            with np.errstate(over="ignore"):
                bounds = np.array([low, high], np.float32)
            if not (size >= 1 and np.isfinite(bounds).all() and bounds[0] < bounds[1]):
                raise ValueError(
                    f"field {name!r} must be (size >= 1, finite low < finite high) in float32, not {fields[name]!r}"
                )
            self.slices[name] = slice(stop, stop := stop + size)
        self.size = stop
        self.low = np.concatenate([np.full(s, low, np.float32) for s, low, _ in fields.values()])
        self.high = np.concatenate([np.full(s, high, np.float32) for s, _, high in fields.values()])

    @property
    def named(self) -> str:
        """The fields, with their sizes where these are not 1, as in "counts [5], received"."""
        return ", ".join(name if size == 1 else f"{name} [{size}]" for name, (size, _, _) in self.fields.items())

    def __repr__(self) -> str:
        return f"Layout({', '.join(f'{name}={field}' for name, field in self.fields.items())})"

    def space(self) -> gymnasium.spaces.Box:
        """The Box of shape [size], float32."""
        return gymnasium.spaces.Box(self.low.copy(), self.high.copy(), dtype=np.float32)

    def pack(self, **values: Array) -> Array:
        """Pack fields, each [B, rows] (size 1) or [B, rows, size], into a fresh float32 array [B, rows, D].

        A field that is the same in all rows may have a single row.
        """
        if values.keys() != self.fields.keys():
            raise ValueError(f"fields must be exactly {list(self.fields)}, not {list(values)}")
        parts = [v[:, :, None] if v.ndim == 2 else v for v in map(values.__getitem__, self.fields)]
        rows = max(part.shape[1] for part in parts)
        full = [part if part.shape[1] == rows else np.repeat(part, rows, 1) for part in parts]
        packed: Array = np.clip(np.concatenate(full, 2), self.low, self.high).astype(np.float32)
        return packed

    def unpack(self, observation: Array) -> dict[str, Array]:
        """The fields of [..., D] by name: views [...] for fields of size 1, [..., size] for the others."""
        return {
            name: observation[..., part.start] if self.fields[name][0] == 1 else observation[..., part]
            for name, part in self.slices.items()
        }


@dataclass(frozen=True)
class Role:
    """Agents with the same observations and actions: `name_0 ... name_{num_agents - 1}`."""

    name: str
    num_agents: int
    layout: Layout
    action_space: gymnasium.spaces.Space[Any]

    def __post_init__(self) -> None:
        space = self.action_space
        kind, low, high = None, [1], [0]
        if isinstance(space, gymnasium.spaces.Discrete):
            low, high = [int(space.start)], [int(space.start + space.n - 1)]
        elif isinstance(space, gymnasium.spaces.MultiDiscrete):
            kind, low, high = space.dtype, space.start.tolist(), (space.start + space.nvec - 1).tolist()
        elif isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
            kind, low, high = space.dtype, space.low.tolist(), space.high.tolist()
        object.__setattr__(self, "_quick", (kind, space.shape, low, high))

    def fits(self, action: Any) -> bool:
        """A quick test that an action lies in the space; it may reject some that do."""
        kind, shape, lows, highs = self._quick  # type: ignore[attr-defined]
        if kind is None:
            return type(action) is np.int64 and lows[0] <= int(action) <= highs[0]
        if type(action) is not np.ndarray or action.dtype != kind or action.shape != shape:
            return False
        for x, low, high in zip(action.tolist(), lows, highs):  # noqa: B905, SIM110 - others take longer
            if not low <= x <= high:
                return False
        return True

    def check(self, actions: Any, shape: tuple[int, int], *, each: bool = False) -> Array:
        """Return `actions` as an array [B, rows, *action_shape]; raise ValueError if any lies outside the space.

        With `each` they are the actions of one replica's agents, [rows, ...], and errors name the shape of one action.
        """
        space, name, axes = self.action_space, "action" if each else "actions", 2 * each
        array = array_of(f"{name} of role {self.name!r}", actions)
        array = array[None] if each else array
        wanted = (*shape, *(space.shape or ()))
        if array.shape != wanted:
            raise ValueError(f"{name} of role {self.name!r} must have shape {wanted[axes:]}, not {array.shape[axes:]}")
        if isinstance(space, gymnasium.spaces.Box):
            if array.dtype != space.dtype:
                if not np.can_cast(array.dtype, space.dtype, "same_kind"):
                    raise ValueError(f"{name} of role {self.name!r} must be {space.dtype}, not {array.dtype}")
                # Compared in the space's own precision: 0.1 lies in a Box that begins at float32(0.1).
                with np.errstate(over="ignore"):
                    array = array.astype(space.dtype)
            # Written so that NaN fails too.
            bad = ~((array >= space.low) & (array <= space.high))
        else:
            if array.dtype.kind not in "iu":
                raise ValueError(f"{name} of role {self.name!r} must be integers, not {array.dtype}")
            if isinstance(space, gymnasium.spaces.Discrete):
                if array.size <= FEW_ACTIONS and all(0 <= x < space.n for x in (array - space.start).ravel().tolist()):
                    return array
                bad = (array < space.start) | (array >= space.start + space.n)
            else:
                assert isinstance(space, gymnasium.spaces.MultiDiscrete), space
                bad = (array < space.start) | (array >= space.start + space.nvec)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            place = f"{name}{list(where[axes:]) or ''}"
            raise ValueError(f"{name} of role {self.name!r} must lie in {space}, but {place} is {array[where]}")
        return array


class Actions:
    """The actions of a role's acting agents, in one array that every `step_one` uses again.

    Attributes:
        array: [1, rows, ...].
    """

    def __init__(self, role: Role, rows: int) -> None:
        space: Any = role.action_space
        self.array = np.zeros((1, rows, *space.shape), space.dtype)
        self._role, self._numbers = role, self.array.reshape(-1)
        kind, shape, low, high = role._quick  # type: ignore[attr-defined]
        # The property shared by all actions that can be checked quickly: (function, value).
        self._alike: Any = (type, {np.int64} if space.dtype == np.int64 else None) if kind is None else (len, {*shape})
        low, high = (np.tile(np.array(bound, space.dtype), rows) for bound in (low, high))
        # Whether each number is at most its upper bound, and at least the lower one; searching bytes is fastest.
        self._fits = bytearray(b"\1" * 2 * low.size)
        below, above = np.frombuffer(self._fits, np.bool_).reshape(2, -1)
        self._tests = [(self._numbers, high, below), (low, self._numbers, above)]
        if space.dtype == np.int64 and not low.any():  # as unsigned numbers, negative ones exceed the upper bound
            self._tests = [(self._numbers.view(np.uint64), high.view(np.uint64), below)]

    def __reduce__(self) -> Any:  # a copy has views of its own array
        return Actions, (self._role, self.array.shape[1])

    def take(self, actions: Any) -> None:
        """Store actions [rows, ...]; ValueError if any lies outside the space."""
        rows = self.array.shape[1]
        if len(actions) == rows == 1 and self._role.fits(actions[0]):
            self.array[0, 0] = actions[0]
        elif not (len(actions) == rows > 1 and self._take_many(actions)):
            self.array[...] = self._role.check(actions, self.array.shape[:2], each=True)

    def _take_many(self, actions: Any) -> bool:
        """Store actions; False if they need the slower check."""
        common, value = self._alike
        try:
            if {*map(common, actions)} != value:
                return False
            if common is type:
                self._numbers[:] = actions
            else:
                np.concatenate(actions, out=self._numbers, casting="no")
        except (TypeError, ValueError, OverflowError):
            return False
        for less, more, fits in self._tests:
            np.less_equal(less, more, fits)
        return 0 not in self._fits
