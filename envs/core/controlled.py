"""A multi-role environment seen from one role, while policies play the other roles."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial, reduce
from typing import Any, Self

import numpy as np

from taciturn.envs.core.around import Around
from taciturn.envs.core.info import Info, latest
from taciturn.envs.core.playing import Acts, Rollout, begin
from taciturn.envs.core.population import Population, SingleStep
from taciturn.envs.core.public import declares
from taciturn.envs.core.replicas import Replicas
from taciturn.envs.core.roles import FEW_ACTIONS, Role
from taciturn.envs.core.steps import Step, check_room, filled
from taciturn.validation import Array


class Played(Around):
    """Common base of `Controlled` and `ControlledAgent`.

    Attributes:
        role: the role with agents left to control.
        others: `{role: policy}` for the other agents; a full reset resets these policies, a partial one restarts them
            in the replicas that it resets (`Policy.restart`).
    """

    def __init__(self, population: Population[Any], role: str, others: Mapping[str, Acts]) -> None:
        self.role, self.others = role, dict(others)
        super().__init__(population)
        self._rollout = Rollout(population, self.others)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.role} in {self.inner!r}, others: {self.others!r}>"

    def around(self, inner: Population[Any], duplicate: Callable[[Any], Any]) -> Self:
        """This view of another population, with copies of the policies."""
        view = copy(self)
        Played.__init__(view, inner, self.role, {role: duplicate(policy) for role, policy in self.others.items()})
        return view

    def make_roles(self) -> tuple[Role, ...]:
        return (self.inner.roles[self.role],)

    def played_by(self, *casts: Mapping[str, Acts]) -> None:
        """See `Population.played_by`; adds the policies of the others."""
        self.inner.played_by(self.others, *casts)

    def _begin(self, played: Mapping[str, Acts]) -> None:
        """Begin a run of the inner population, which has just been reset, with these policies."""
        self._follow_params()
        self._rollout = Rollout(self.inner, played)
        begin(self.inner, played)

    def _follow_params(self) -> None:
        """Copy the inner population's parameters, since its reset may have replaced them."""
        if self.inner.params is not self.params:
            self.params = self.inner.params
            self.roles = {role.name: role for role in self.make_roles()}


class Controlled(Played):
    """A phased environment (its roles take turns) seen from one role, while policies play the other roles.

    Args:
        population: an environment with several roles.
        role: the role left to control.
        others: `{role: policy}` for every other role; see `Played`.
    """

    name = "controlled"
    _forms: Any = None  # the parameters, and the closed forms of the others' policies
    _started_for: Any = None  # the `_made_for` of `inner` for which these policies last began

    def __init__(self, population: Population[Any], role: str, others: Mapping[str, Acts]) -> None:
        if role not in population.roles or set(others) != set(population.roles) - {role}:
            raise ValueError(
                f"role and others must share out the roles {list(population.roles)}, not {role!r} and {sorted(others)}"
            )
        super().__init__(population, role, others)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_forms": None, "_started_for": None}

    @property
    def kind(self) -> type[Population[Any]]:
        # A subclass may give actions another meaning.
        return self.inner.kind if type(self) is Controlled else type(self)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        inner = self.inner
        if where is None and isinstance(inner, Replicas):
            inner.closed_forms = self._closed_forms(inner)
        if where is not None and not inner._marked(where).all():
            with apart(inner, where):  # the other roles open their cycle there
                _, info = inner.reset(seed=seed, options=options, where=where)
                self._rollout.restart(where)
                _, steps = self._follow(where=where)
            return self.observe(), _combined_info(steps, info)
        _, info = inner.reset(seed=seed, options=options, where=where)
        if where is None:
            self._begin_others()
        else:
            self._rollout.restart(where)
        _, steps = self._follow()
        return self.observe(), _combined_info(steps, info)

    def _closed_forms(self, inner: Replicas[Any]) -> dict[str, Any]:
        """The closed forms of the other roles' policies; empty unless all have one and they answer this role's turn."""
        if inner.turns is None or len(inner.turns) != 2 or inner.turns[0] != (self.role,):
            return {}
        others: dict[str, Any] = dict(self.others)
        if not all(declares(policy, "closed_form") for policy in others.values()):
            return {}
        if self._forms is None or self._forms[0] is not inner.params:
            forms = {role: policy.closed_form(inner.view(policy)) for role, policy in others.items()}
            self._forms = inner.params, {} if None in forms.values() else forms
        result: dict[str, Any] = self._forms[1]
        return result

    def _begin_others(self) -> None:
        """Begin a run of the other roles' policies. Policies with answers inside the inner population's step begin only
        once, since they keep no memory."""
        inner: Any = self.inner
        if self._is_answered() and self._started_for is inner._made_for:
            self._follow_params()
            inner.played_by(self.others)
            return
        self._begin(self.others)
        self._started_for = inner._made_for if self._is_answered() else None

    def reset_one(
        self, seed: int | None, options: Mapping[str, Any] | None, everyone: bool = False
    ) -> tuple[dict[str, Array], Info]:
        inner: Any = self.inner
        if not isinstance(inner, Replicas) or type(self).reset is not Controlled.reset or not self._acts_first():
            return super().reset_one(seed, options, everyone)
        inner.closed_forms = self._closed_forms(inner)
        seen, info = inner.reset_one(seed, options, everyone)
        self._begin_others()
        return seen, info

    def _acts_first(self) -> bool:
        return self.inner.turns is not None and self.inner.turns[0] == (self.role,)

    def step(self, actions: Any, where: Array | None = None, out: Array | None = None) -> Step:
        self._running()
        chosen = self.roles[self.role].check(actions, (self.num_envs, self.rows(self.role)))
        check_room(self, out)
        if self._is_answered():
            step = self.inner.step({self.role: self.inner_action(chosen)}, where)
            reward, seen = self.own_reward(step.reward[self.role]), step.observation[self.role]
            return Step(filled(out, seen), reward, self.terminated, self.truncated, partial(getattr, step, "info"))
        step = self._rollout.play({self.role: self.inner_action(chosen)}, where=where)
        more, steps = self._follow(where=where)
        latest_info = partial(_combined_info, [step, *steps])
        reward = self.own_reward(step.reward[self.role] + more)
        return Step(filled(out, self.observe()), reward, self.terminated, self.truncated, latest_info)

    def step_one(self, actions: Mapping[str, Any], everyone: bool = False) -> SingleStep:
        if not isinstance(self.inner, Replicas) or type(self).step is not Controlled.step:
            return super().step_one(actions, everyone)  # a subclass may override stepping
        if self._state is None or self.terminated[0] or self.truncated[0]:
            self._running()
        role, rows = self.roles[self.role], actions[self.role]
        if self.rows(self.role) == len(rows) <= FEW_ACTIONS and all(map(role.fits, rows)):
            chosen = np.array(rows)[None]
        else:
            chosen = role.check(rows, (1, self.rows(self.role)), each=True)
        if self._is_answered():
            return self._answered_step(chosen)
        latest_info: Info = {}
        step_by = partial(self._step_inner, latest_info)
        step = self._rollout.play({self.role: self.inner_action(chosen)}, step_by)
        more, steps = self._follow(step_by)
        seen = (steps[-1] if steps else step).observation
        own = seen[self.role] if self.role in seen else self.observe()
        reward = {self.role: self.own_reward(step.reward[self.role] + more)[0].tolist()}
        return {self.role: own[0]}, reward, bool(self.terminated[0]), bool(self.truncated[0]), latest_info

    def _is_answered(self) -> bool:
        """Whether the inner population's step already includes the others' answers."""
        return isinstance(self.inner, Replicas) and bool(self.inner._inside)

    def _answered_step(self, chosen: Array) -> SingleStep:
        """`step_one` by way of the inner population's `step_one`, with actions [1, rows, ...]."""
        seen, rewards, terminated, truncated, info = self.inner.step_one({self.role: self.inner_action(chosen)[0]})
        reward = self.own_reward(np.array([rewards[self.role]]))[0].tolist()
        return seen, {self.role: reward}, terminated, truncated, info

    def _step_inner(self, latest_info: Info, actions: Mapping[str, Array]) -> Step:
        """Step the inner population by `step_one`, and add the step's info to `latest_info`."""
        inner = self.inner
        seen, rewards, _, _, info = inner.step_one({role: rows[0] for role, rows in actions.items()})
        unknown = inner.no_meaning() if latest_info else ()
        latest_info |= {key: value for key, value in info.items() if key not in unknown}
        by_role = {role: np.array([values]) for role, values in rewards.items()}
        shown = {role: rows[None] for role, rows in seen.items()}
        return Step(shown, by_role, inner.terminated, inner.truncated, info)

    def own_reward(self, reward: Array) -> Array:
        """The role's reward here, given its reward in the inner population; both [B, rows]."""
        return reward

    def inner_action(self, action: Array) -> Array:
        """The role's action in the inner population, given its action here; both [B, rows, ...]."""
        return action

    def _follow(
        self, step_by: Callable[[Any], Step] | None = None, where: Array | None = None
    ) -> tuple[Any, list[Step]]:
        """Play the other roles in the replicas `where` until this role's turn comes again; return this role's summed
        reward and the steps."""
        inner, reward, steps = self.inner, 0.0, []
        while self.role not in inner.turn and not (inner.done if where is None else inner.done | ~where).all():
            step = self._rollout.play(step_by=step_by, where=where)
            reward += step.reward.get(self.role, 0.0)
            steps.append(step)
        if self.role not in inner.turn and not inner.done.all():  # waiting replicas are at this role's turn
            inner._turn = next(place for place, turn in enumerate(inner.turns or ()) if self.role in turn)
        return reward, steps


@contextmanager
def apart(population: Population[Any], where: Array) -> Iterator[None]:
    """Context manager that puts the population at the first turn of a cycle, so the replicas `where` bool[B] can be
    reset and played (`step(where=...)`). On exit it returns to the previous turn if other live replicas wait there."""
    turn, population._turn = population._turn, 0
    waiting = bool((~where & ~population.done).any())
    try:
        yield
    except BaseException:  # also at Ctrl-C
        population._turn = turn
        raise
    if waiting:
        population._turn = turn


def _combined_info(steps: Sequence[Step], info: Info | None = None) -> Info:
    """The combined info of consecutive steps, after `info` if given."""
    return reduce(latest, [*([] if info is None else [info]), *(step.info for step in steps)])
