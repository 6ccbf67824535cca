"""Agents that share a mind send one another's private data: no total is finite."""

from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.bench import scores
from taciturn.bench.results import Group
from taciturn.bench.study import CENTRALISED
from taciturn.envs import gossip_bandit_v0
from taciturn.envs.core.public import fast_form, has_public_schedule
from taciturn.policies import UCB1, Voter
from taciturn.wrappers import BitwiseRandomizedResponse, Privatize

NO_COMMUNICATION: dict[str, Any] = {
    "num_agents": 4,
    "qualities": (0.9, 0.2),
    "horizon": 5.0,
    "without_preference": "zeros",
}


class Together(Voter):
    """Could answer with what another agent saw: certified 6.74 of a claimed 1 before."""

    centralised = True


def gossip(num_envs: int = 2) -> Any:
    return Privatize(
        gossip_bandit_v0.population(num_envs, **NO_COMMUNICATION), "preference", BitwiseRandomizedResponse(1.0)
    )


@pytest.mark.parametrize(("policy", "finite"), [(Voter(), True), (Together(), False)])
def test_a_shared_mind_has_no_total(policy: Any, finite: bool) -> None:
    run = taciturn.simulate(gossip(), policy, seed=0)
    for unit in (None, "event", "user"):
        assert (np.isfinite(run.accountant.epsilon(delta=0.0, method="basic", unit=unit)) == finite).all()
    assert (np.isfinite(run.accountant.odometer(delta=0.0)) == finite).all()
    assert (np.isfinite(run.metrics["epsilon_basic"]) == finite).all()
    assert ("infinite: agents share a mind" in run.accountant.table()[0]["note"]) != finite


def test_nor_has_a_population_in_which_one_seat_is_played_by_somebody_else() -> None:
    """The others keep a finite total only if they, too, are on their own."""
    for others, finite in ((Voter(), True), (Together(), False)):
        env = taciturn.registry.controlled_agent("gossip_bandit_v0", others=others, **NO_COMMUNICATION)
        run = taciturn.simulate(Privatize(env, "preference", BitwiseRandomizedResponse(1.0)), Voter(), seed=0)
        assert np.isfinite(run.metrics["epsilon_basic"]).all() == finite


@pytest.mark.parametrize(
    ("policy", "found", "shown"),
    [("OneAnswerOracle", 0.0, "∞"), ("mine", 1.0, "∞"), ("Listener", 0.0, "3")],
)
def test_tables_show_no_finite_total_of_a_shared_mind(policy: str, found: float, shown: str) -> None:
    """Neither of one that declares it, nor of one in which the check found it."""
    metrics = {"epsilon": np.full(2, 3.0), CENTRALISED: np.full(2, found)}
    assert scores.spent_text(Group({"policy": policy}, np.arange(2), metrics, {}, np.zeros(2))) == shown


# What a declaration does not survive.


class Declares(UCB1):
    public_schedule = True
    fast = UCB1.fast

    def begin(self, view: Any) -> None:
        super().begin(view)
        self.patience = 3


class Plain(Declares):
    """Adds a method of its own."""

    def __init__(self) -> None:
        super().__init__()

    def more(self) -> int:
        return 1


class Intercepts(Declares):
    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Completes(Declares):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Stores(Declares):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class Pretends(Declares):
    __class__ = UCB1  # type: ignore[assignment]


class Shadows(Declares):
    """Comes between `begin` and what it keeps."""

    @property
    def patience(self) -> int:
        return 100

    @patience.setter
    def patience(self, value: int) -> None: ...


class Beside(UCB1):
    def update(self, *given: Any) -> None:
        """Comes after the class that declares, and before what that class inherits."""


class Mixed(Declares, Beside):
    pass


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (Declares, True),
        (Plain, True),
        (Intercepts, False),
        (Completes, False),
        (Stores, False),
        (Pretends, False),
        (Shadows, False),
        (Mixed, False),
    ],
)
def test_a_declaration_does_not_survive_what_comes_between(kind: Any, holds: bool) -> None:
    policy = kind()
    assert has_public_schedule(policy) == holds
    view: Any = None
    assert (fast_form(policy, view) is not None) == holds
