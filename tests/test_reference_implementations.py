"""Numbers of the worlds against values worked out by hand, or from definitions, and never by the code that made them.

Statistical tests reject with probability at most 1e-4 if the code is right.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.channels.faults import Fault
from taciturn.channels.replies import AliasTable, ReplySums
from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.policies import CBL, DDPMAB, PPCL
from taciturn.wrappers import BitwiseRandomizedResponse

ALARM = 1e-4
FOUR_SIGMA = 3.9  # two-sided: 9.6e-5


def added(*chances: float) -> Array:
    """The law of the number of successes in independent trials, one after another."""
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.append(distribution * (1 - chance), 0.0) + np.append(0.0, distribution * chance)
    return distribution


# Gossip.


@pytest.mark.parametrize("fast", [False, True])
def test_popularity_regret_of_the_first_ticks(fast: bool) -> None:
    """Everyone adopts what it first pulls, of quality 1: nobody has a preference at the first tick, one agent of two at
    the second."""
    env = gossip_bandit_v0.population(
        400, num_agents=2, qualities=(1.0, 1.0), asks="one", initial_preferences="none", horizon=1.0
    )
    run = taciturn.simulate(env, CBL(tau=1.0), seed=0, fast=fast)
    found, ticks = run.metrics["popularity_regret"], run.metrics["ticks"]
    for number, regret in ((0, {1.0}), (1, {1.0}), (2, {0.75}), (3, {2 / 3, 0.5})):
        assert (ticks == number).sum() > 10
        assert {round(x, 9) for x in found[ticks == number].tolist()} == {round(x, 9) for x in regret}


class Stays(PPCL):
    """PPCL where nothing ever succeeds, so that preferences stay."""

    fast = PPCL.gossip_rule


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(("asks", "agents"), [("all", 4), ("all", 7), ("one", 5)])
def test_ticks_at_which_no_count_exceeds_q_n(fast: bool, asks: str, agents: int) -> None:
    """A debiased count is at most 0 if the count is at most q N, which is no whole number and lies closer to the next
    one."""
    mechanism = BitwiseRandomizedResponse({4: 0.2, 7: 0.6, 5: 0.2}[agents])
    flip = 1 / (1 + math.exp(mechanism.epsilon / 2))
    replies = agents if asks == "all" else 1
    assert 0.4 < flip * replies % 1 < 1 or asks == "one"
    env = gossip_bandit_v0.population(200, num_agents=agents, qualities=(0.0, 0.0), asks=asks, horizon=12.0)
    run = taciturn.simulate(env, Stays(), seed=1, privacy={"preference": mechanism}, fast=fast)
    holders = [(agents + 1) // 2, agents // 2]
    if asks == "all":
        chance = math.prod(
            sum(added(*[1 - flip] * n, *[flip] * (agents - n))[c] for c in range(agents + 1) if c <= flip * agents)
            for n in holders
        )
    else:
        chance = flip * (1 - flip)  # the bit of the peer's option is not set, and neither is the other
    ticks, seen = run.metrics["ticks"].sum(), run.metrics["all_zero"].sum()
    assert abs(seen - ticks * chance) < FOUR_SIGMA * math.sqrt(ticks * chance * (1 - chance))


def drawn_by(table: AliasTable, row: int) -> dict[int, float]:
    """The law that a row of the table has, read from its cells."""
    distribution: dict[int, float] = {}
    width = table.cells.shape[1]
    for cell in range(width):
        stays, other = np.modf(table.cells[row, cell])
        for value, chance in ((cell, stays), (int(other), 1 - stays)):
            if chance > 0:
                distribution[int(table.first[row]) + value] = (
                    distribution.get(int(table.first[row]) + value, 0.0) + chance / width
                )
    return distribution


@pytest.mark.parametrize(
    ("replies", "p", "q"), [(1, 0.9, 0.1), (7, 0.8, 0.2), (40, 0.5, 0.1), (40, 1.0, 0.0), (900, 0.7, 0.3)]
)
def test_tables_of_replies(replies: int, p: float, q: float) -> None:
    """The laws that the cells of the tables add up to, against trial after trial."""
    sums = ReplySums(replies, p, q)
    assert (sums.gap > 0) == (replies == 900)
    for ones in sorted({0, 1, replies // 3, replies - 1, replies} & set(range(replies + 1))):
        row = ones // (sums.gap + 1)
        anchor = int(sums.anchors[row])
        assert 0 <= ones - anchor <= sums.gap
        first, second = drawn_by(sums.outer, row), drawn_by(sums.inner, ones - anchor if sums.gap else 0)
        found = np.zeros(replies + 1)
        for a, x in first.items():
            for b, y in second.items():
                found[a + b] += x * y
        np.testing.assert_allclose(found, added(*[p] * ones, *[q] * (replies - ones)), atol=1e-12)


def test_tables_are_drawn_from_as_they_say() -> None:
    """An even grid of uniform numbers gives each value its share."""
    sums, grid = ReplySums(6, 0.75, 0.2), (np.arange(200_000) + 0.5) / 200_000
    for ones in range(7):
        drawn = sums.draw(np.full(grid.size, ones), grid[:, None])
        share = np.bincount(drawn, minlength=7) / grid.size
        np.testing.assert_allclose(share, added(*[0.75] * ones, *[0.2] * (6 - ones)), atol=2e-4)


# Social bandit.


# Federated bandit.


class Loses(Fault):
    """Loses the sends whose number, from 1, is in `lost`."""

    order = 2

    def __init__(self, *lost: int) -> None:
        self.lost = lost

    def start(self, shape: tuple[int, int], rng: np.random.Generator) -> dict[str, Array]:
        return {"sends": np.zeros(shape[0], np.int64)}

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        memory["sends"] += sending
        return y, sent & ~np.isin(memory["sends"], self.lost)[:, None]


def played(lost: tuple[int, ...], uploads: list[tuple[bool, bool]]) -> Any:
    """Two agents that pull the one arm, which always gives 1, and upload in the slots in which they are told to."""
    env = federated_bandit_v0.population(1, num_agents=2, qualities=(1.0,), horizon=100)
    env.reset(seed=0, options={"channels": {"means": ChannelConfig(faults=(Loses(*lost),))}})
    for told in uploads:
        env.step(np.array([told], np.int64))
    return env.state


def test_rounds_that_are_missed_and_uploads_that_are_lost() -> None:
    """What is behind each agent's mean (`weight`), what it has reported (`used_counts`), and the rounds it missed, slot
    by slot."""
    first, both, nobody = (True, False), (True, True), (False, False)

    def seen(*uploads: tuple[bool, bool], lost: tuple[int, ...] = ()) -> Any:
        s = played(lost, list(uploads))
        return [s.weight[0, :, 0].tolist(), s.used_counts[0, :, 0].tolist(), s.missed_rounds[0].tolist()]

    assert seen(nobody, nobody) == [[0, 0], [0, 0], [0, 0]]
    assert seen(nobody, first) == [[2, 0], [2, 0], [0, 1]]
    assert seen(nobody, first, first) == [[3, 0], [3, 0], [0, 2]]
    assert seen(nobody, first, first, nobody, both) == [[5, 5], [5, 5], [0, 0]], "the second agent sends three messages"
    assert seen(nobody, first, lost=(1,)) == [[0, 0], [2, 0], [0, 1]], (
        "sent and lost: spent, not missed, and not sent again"
    )
    assert seen(nobody, first, first, lost=(1,)) == [[1, 0], [3, 0], [0, 2]]
    lost = seen(nobody, first, (False, True), lost=(2, 3))
    assert lost == [[2, 0], [2, 3], [1, 0]], (
        "the second agent's two messages are lost, and it has missed nothing any more"
    )
    # After two missed rounds, four pulls go as three messages of 4/3 each: the second of them is lost.
    found = seen(first, first, nobody, both, lost=(4,))
    np.testing.assert_allclose(found, [[4.0, 8 / 3], [4.0, 4.0], [0.0, 0.0]])


def test_a_lost_upload_leaves_the_average_to_the_others() -> None:
    state = played((2, 3), [(True, False), (False, True), (False, False)])
    assert state.broadcast[0, 0] == 1.0
    assert state.private[0].tolist() == [[1.0], [0.0]]
    assert state.rounds[0] == 2
    assert state.last_round[0, 0] == 1, "nothing new arrived in the second round"


def test_ties_while_waiting_are_broken_at_random() -> None:
    """Agents on a ring whose arms all gave 0 play each of them equally often while a round is under way
    (chi-squared)."""
    env = federated_bandit_v0.population(150, num_agents=8, qualities=(0.0, 0.0, 0.0), topology="ring", horizon=4000)
    env.reset(seed=0)
    policy = DDPMAB(epsilon=100.0)
    policy.reset(env, np.random.default_rng(1))
    chosen = np.zeros(3)
    observation, waited = env.observe(), np.zeros(150, np.int64)
    for _ in range(4000):
        action = policy.act(observation)
        under_way = env.state.phase_left > 0
        new = under_way & (waited == 0)
        chosen += np.bincount(action[new].ravel() % 3, minlength=3)
        waited = np.where(under_way, waited + 1, 0)
        if new.all():
            break
        observation = env.step(action).observation
    assert chosen.sum() == 150 * 8
    assert stats.chisquare(chosen).pvalue > ALARM


# Views.


@pytest.mark.parametrize(
    "world", [gossip_bandit_v0, social_bandit_v0, federated_bandit_v0], ids=lambda world: world.name
)
def test_an_observation_is_its_readers_own(world: Any) -> None:
    """Whatever is written into an observation, of the agent that acts or of another, nobody sees."""
    env = world.env(num_agents=4)
    env.reset(seed=0)
    for _ in range(3):
        for agent in env.agents:
            seen = env.observe(agent)
            kept = seen.copy()
            seen[:] = -7.0
            np.testing.assert_array_equal(env.observe(agent), kept)
        seen = env.last()[0]
        kept = seen.copy()
        seen[:] = -7.0
        np.testing.assert_array_equal(env.last()[0], kept)
        env.step(env.action_space(env.agent_selection).sample())
