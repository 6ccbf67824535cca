"""`Faulty`: each fault has its law, in one order however wrappers nest, and costs what was sent; worlds read only what
arrives."""

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import worlds as tiny
from cases import CASES, CLIENTS, forms, rewards
from distributions import fits, same_distribution
from scipy import stats

import taciturn
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Array, Channel, ChannelConfig, Fault, Streams
from taciturn.policies import FixedCount, Random
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Byzantine,
    Churn,
    Faulty,
    Gaussian,
    KaryRandomizedResponse,
    LossyChannel,
    Memoized,
    MessageLimit,
    NoPrivacy,
    Privatize,
    Stragglers,
)

ALPHA = 1e-4
NOISE = Gaussian(epsilon=1.0, delta=1e-5)
FAULTS: dict[str, Any] = {
    "lossy": LossyChannel(0.5),
    "stragglers": Stragglers((0.3, 0.3, 0.3)),
    "byzantine": Byzantine(0.5, "flip"),
    "churn": Churn(0.4, 0.4),
    "limit": MessageLimit(1),
}


class Bill:
    """An accountant that only adds up."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.each = np.zeros(shape, np.int64)

    def charge(
        self, channel: str, loss: Any, everyone: Any = None, each: Any = None, events: int | None = None
    ) -> None:
        if everyone is not None:
            self.each += everyone[:, None]
        if each is not None:
            self.each += each


def channel(
    *faults: Fault, shape: tuple[int, int], payload: Any = "bounded", mechanism: Any = None, seed: int = 0
) -> Channel:
    """A channel with a run begun on it."""
    one = Channel("c", payload, observer="server", unit="event", num_senders=shape[1])
    one.install(ChannelConfig(mechanism, faults=faults), Bill(shape))
    one.draw_from(Streams(seed))
    one.reset(shape[0])
    return one


# Laws.


def test_messages_are_lost_one_by_one() -> None:
    shape = (20_000, 6)
    _, delivered = channel(LossyChannel(0.3), shape=shape).send(np.ones(shape))
    distribution = stats.binom.pmf(np.arange(7), 6, 0.7)
    assert fits(np.bincount(delivered.sum(1), minlength=7), distribution) > ALPHA
    together = np.repeat(np.random.default_rng(0).random((20_000, 1)) >= 0.3, 6, 1)
    assert abs(together.mean() - 0.7) < 0.02
    assert fits(np.bincount(together.sum(1), minlength=7), distribution) < ALPHA, (
        "losing a replica's messages together is another law"
    )


@pytest.mark.parametrize("mechanism", [None, NoPrivacy(), BitwiseRandomizedResponse(1.0)], ids=repr)
def test_thinned_counts_have_the_law_of_lost_messages(mechanism: Any) -> None:
    replicas = 40_000
    one_hot = np.broadcast_to(np.eye(3, dtype=np.int64)[[0, 0, 0, 1, 1]], (replicas, 5, 3))
    make: Callable[[int], Channel] = lambda seed: channel(  # noqa: E731
        LossyChannel(0.4), shape=(replicas, 5), payload="one_hot", mechanism=mechanism, seed=seed
    )
    closed, single = make(1), make(2)
    sums, received = closed.tally(one_hot.sum(1))
    y, delivered = single.send(one_hot)
    thinned = np.column_stack([sums, received])
    lost = np.column_stack([y.sum(1), delivered.sum(1)])
    assert same_distribution(thinned, lost) > ALPHA
    np.testing.assert_array_equal(closed.messages(), 1)
    np.testing.assert_array_equal(single.messages(), 1)
    if mechanism is not None:
        rng = np.random.default_rng(3)
        late = rng.binomial(mechanism.perturb_counts(one_hot.sum(1), rng), 0.6)
        assert same_distribution(np.column_stack([late, received]), lost) < ALPHA, (
            "thinning after perturbing is another law"
        )


def test_two_losses_are_one() -> None:
    histogram = np.broadcast_to([7, 2], (20_000, 2))
    twice, _ = channel(LossyChannel(0.2), LossyChannel(0.5), shape=(20_000, 9), payload="one_hot").tally(histogram)
    once, _ = channel(LossyChannel(0.6), shape=(20_000, 9), payload="one_hot", seed=1).tally(histogram)
    assert same_distribution(twice, once) > ALPHA


def test_delays_have_their_law() -> None:
    """Everyone speaks once, then one agent keeps time."""
    shape, delays = (400, 101), (0.5, 0.2, 0.1)
    late = channel(Stragglers(delays), shape=shape)
    clock = np.zeros(shape, np.bool_)
    clock[:, -1] = True
    found = []
    for time in range(6):
        y, delivered = late.send(np.full(shape, 1.0 + time), np.ones(shape, np.bool_) if time == 0 else clock)
        assert (y[:, :-1][delivered[:, :-1]] == 1).all(), "what arrives is what was said then"
        assert (y[~delivered] == 0).all()
        found.append(int(delivered[:, :-1].sum()))
    assert found[3:] == [0, 0, 0]
    counts = [*found[:3], 400 * 100 - sum(found)]
    assert fits(counts, [*delays, 0.2]) > ALPHA
    assert fits(counts[:3], [0.5, 0.2, 0.3]) < ALPHA, "what never arrives is not merely slow"


def test_the_last_word_is_heard() -> None:
    """Of two messages due together the one sent last is read: of an even chance of no delay or one, 1/4 reads the older
    one."""
    shape = (200, 100)
    late = channel(Stragglers((0.5, 0.5)), shape=shape)
    late.send(np.full(shape, 1.0))
    y, delivered = late.send(np.full(shape, 2.0))
    counts = [(~delivered).sum(), (y == 1).sum(), (y == 2).sum()]
    assert fits(counts, [0.25, 0.25, 0.5]) > ALPHA
    assert fits(counts, [0.25, 0.5, 0.25]) < ALPHA


def test_a_sure_delay() -> None:
    late = channel(Stragglers((0.0, 0.0, 1.0)), shape=(2, 3))
    heard = [late.send(np.full((2, 3), time))[1].all() for time in range(5)]
    assert heard == [False, False, True, True, True]


def test_a_send_is_when_somebody_would_speak() -> None:
    late = channel(Stragglers((0.0, 1.0)), shape=(2, 1))
    x = np.ones((2, 1))
    late.send(x)
    _, delivered = late.send(x, np.array([[True], [False]]))
    assert delivered.tolist() == [[True], [False]], "the second replica's message waits for its next send"
    late.live = np.array([False, True])
    _, delivered = late.send(x)
    assert delivered.tolist() == [[False], [True]], "time stands still in a replica that is done"
    late.live = np.array([True, True])
    assert late.send(x)[1].all()


@pytest.mark.parametrize(
    ("fraction", "agents", "liars"), [(0.3, 10, 3), (0.0, 10, 0), (1.0, 10, 10), (0.26, 10, 3), (0.04, 10, 0)]
)
def test_so_many_lie(fraction: float, agents: int, liars: int) -> None:
    one = channel(Byzantine(fraction), shape=(5, agents))
    y, delivered = one.send(np.zeros((5, agents)))
    assert ((y == 1).sum(1) == liars).all()
    assert delivered.all()
    np.testing.assert_array_equal(one.send(np.zeros((5, agents)))[0], y, "the same ones each time")


def test_those_who_lie_are_counted_as_liars() -> None:
    fault, rng = Byzantine(0.4), np.random.default_rng(0)
    memory, x = fault.start((50, 5), rng), rng.random((50, 5))
    np.testing.assert_array_equal(fault.liars((50, 5), memory), fault.corrupt(x, "bounded", memory, rng) != x)


def test_any_agent_may_be_the_liar() -> None:
    shape = (20_000, 4)
    y, _ = channel(Byzantine(0.5, "constant"), shape=shape).send(np.zeros(shape))
    pairs = list(itertools.combinations(range(4), 2))
    counts = [((y == 1) == np.isin(np.arange(4), pair)).all(1).sum() for pair in pairs]
    assert sum(counts) == 20_000
    assert fits(counts, np.ones(6)) > ALPHA
    first = np.arange(4) < np.random.default_rng(0).binomial(4, 0.5, (20_000, 1))
    counts = [(first == np.isin(np.arange(4), pair)).all(1).sum() for pair in pairs]
    assert fits(counts, np.ones(6)) < ALPHA, "taking the first ones is another law"


@pytest.mark.parametrize(
    ("payload", "strategy", "x", "lie"),
    [
        ("bounded", "flip", [0.2, 1.0], [0.8, 0.0]),
        ("stream", "constant", [0.2, 1.0], [1.0, 1.0]),
        ("categorical", "flip", [0, 1], [1, 0]),
        ("categorical", "constant", [0, 1], [1, 1]),
        ("one_hot", "flip", [[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [1, 0, 0]]),
        ("one_hot", "constant", [[1, 0, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]),
        ("scores", "flip", [[3.0, 1.0, 2.0]], [[1.0, 3.0, 2.0]]),
        ("scores", "constant", [[3.0, 1.0, 2.0]], [[1.0, 2.0, 3.0]]),
        ("vector", "flip", [[3.0, -4.0]], [[-3.0, 4.0]]),
        ("vector", "constant", [[3.0, -4.0, 0.0, 0.0]], [[2.5, 2.5, 2.5, 2.5]]),
    ],
)
def test_what_liars_say(payload: Any, strategy: Any, x: Any, lie: Any) -> None:
    x = np.array([x])
    before = x.copy()
    y, _ = channel(Byzantine(1.0, strategy), shape=x.shape[:2], payload=payload).send(x)
    np.testing.assert_allclose(y, [lie])
    assert payload in ("bounded", "stream") or y.dtype == x.dtype
    np.testing.assert_array_equal(x, before)


def test_random_lies_have_their_law() -> None:
    shape, fault = (100, 300), Byzantine(1.0, "random", (0.0, 2.0))
    values, _ = channel(fault, shape=shape, payload="categorical").send(np.zeros(shape, np.int64))
    assert fits(np.bincount(values.reshape(-1)), np.ones(3)) > ALPHA
    one_hot = np.broadcast_to([1, 0, 0], (*shape, 3))
    options, _ = channel(fault, shape=shape, payload="one_hot").send(one_hot)
    assert (options.sum(-1) == 1).all()
    assert fits(options.sum((0, 1)), np.ones(3)) > ALPHA
    numbers, _ = channel(fault, shape=shape).send(np.zeros(shape))
    assert stats.kstest(numbers.reshape(-1), stats.uniform(0, 2).cdf).pvalue > ALPHA
    vectors, _ = channel(fault, shape=shape, payload="vector").send(np.broadcast_to([3.0, 4.0], (*shape, 2)))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 5)
    angle = np.arctan2(vectors[..., 1], vectors[..., 0]).reshape(-1)
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > ALPHA
    square = np.random.default_rng(0).uniform(-1, 1, (30_000, 2))
    wrong = np.arctan2(square[:, 1], square[:, 0])
    assert stats.kstest(wrong, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue < ALPHA, "a square's corners are likelier"


def test_agents_come_and_go() -> None:
    shape, leave, back = (200, 200), 0.2, 0.5
    one = channel(Churn(leave, back), shape=shape)
    first, second = (one.send(np.ones(shape))[1] for _ in range(2))
    counts = [(~first & ~second).sum(), (~first & second).sum(), (first & ~second).sum(), (first & second).sum()]
    distribution = [leave * (1 - back), leave * back, (1 - leave) * leave, (1 - leave) ** 2]
    assert fits(counts, distribution) > ALPHA
    share = np.array([0.2, 0.8])
    assert fits(counts, np.outer(share, share).reshape(-1)) < ALPHA, "an agent who was away is likelier to be away"
    for _ in range(40):
        there = one.send(np.ones(shape))[1]
    assert fits([there.sum(), (~there).sum()], [back, leave]) > ALPHA


def test_an_agent_has_so_many_messages() -> None:
    shape = (50, 20)
    one, senders = channel(MessageLimit(2), shape=shape), np.random.default_rng(0).random((6, *shape)) < 0.5
    before = np.zeros(shape, np.int64)
    for now in senders:
        _, delivered = one.send(np.ones(shape), now)
        np.testing.assert_array_equal(delivered, now & (before < 2))
        before += now
    assert before.max() > 4
    np.testing.assert_array_equal(one.messages(), np.minimum(before, 2))
    assert not channel(MessageLimit(0), shape=shape).send(np.ones(shape))[1].any()


def test_on_a_channel_of_answers_the_limit_is_on_questions() -> None:
    shape = (3, 4)
    one, everybody = channel(MessageLimit(2), shape=shape), np.ones(shape, np.bool_)
    reply = lambda x, who, liars: (x, np.repeat(who.sum(1)[:, None], 4, 1), np.zeros(shape, np.int64))  # noqa: E731
    answered = [one.answer(np.ones(shape), everybody, reply)[1].all() for _ in range(2)]
    assert answered == [True, True]
    assert not one.answer(np.ones(shape), everybody, reply)[1].any()
    assert (one.messages() == 8).all(), "all four answer each question, and the third time nobody asks"


def test_the_lost_use_up_messages_and_the_absent_do_not() -> None:
    shape = (200, 5)
    lossy = channel(LossyChannel(0.5), MessageLimit(1), shape=shape)
    heard = np.sum([lossy.send(np.ones(shape))[1] for _ in range(20)], 0)
    assert 0 < heard.sum() < heard.size
    assert (lossy.messages() == 1).all()
    away = channel(MessageLimit(1), Churn(0.5, 0.5), shape=shape)
    assert (np.sum([away.send(np.ones(shape))[1] for _ in range(40)], 0) == 1).all()


# What is charged, and in which order things go wrong.


def test_liars_speak_before_the_mechanism_and_are_lost_after_it() -> None:
    """A lie through randomised response that keeps an answer with probability p is heard with p, not always."""
    shape, distribution = (100, 400), KaryRandomizedResponse(1.0, num_values=2)
    one = channel(Byzantine(1.0, "constant"), shape=shape, payload="categorical", mechanism=distribution)
    y, _ = one.send(np.zeros(shape, np.int64))
    keep = 2 / 3  # (e + 1) / (e + M) at e = 1 and M = 2
    assert fits([(y == 1).sum(), (y == 0).sum()], [keep, 1 - keep]) > ALPHA
    said, _ = channel(shape=shape, payload="categorical", mechanism=distribution).send(np.ones(shape, np.int64))
    heard, delivered = channel(LossyChannel(0.5), shape=shape, payload="categorical", mechanism=distribution).send(
        np.ones(shape, np.int64)
    )
    np.testing.assert_array_equal(
        heard, np.where(delivered, said, 0), "the noise is the same, whether it is heard or not"
    )


@pytest.mark.parametrize(
    "mechanism", [NoPrivacy(), BitwiseRandomizedResponse(1.0), Memoized(BitwiseRandomizedResponse(1.0))], ids=repr
)
def test_wrappers_nest_in_any_order(mechanism: Any) -> None:
    faults = [*FAULTS.values(), LossyChannel(0.1)]
    layers: list[Callable[[Any], Any]] = [lambda env, f=f: Faulty(env, "vote", f) for f in faults]  # type: ignore[misc]
    layers.append(lambda env: Privatize(env, "vote", mechanism))
    runs = []
    for order in itertools.islice(itertools.permutations(layers), 0, None, 641):
        env = tiny.consensus_v0.population(num_envs=3)
        for layer in order:
            env = layer(env)
        run = taciturn.simulate(env, Random(), seed=0)
        runs.append((run.metrics["earned"], env.channels["vote"].messages(), run.accountant.messages("vote")))
    for run_ in runs[1:]:
        for one, first in zip(run_, runs[0], strict=True):
            np.testing.assert_array_equal(one, first)


def test_the_rest_has_the_same_luck() -> None:
    """A fault that never strikes changes nothing, and one beside it goes on as before."""
    shape = (20, 50)
    x = np.random.default_rng(0).random(shape)
    quiet = (Churn(0.0, 0.5), Byzantine(0.0, "random"), Stragglers((1.0,)))
    alone, _ = channel(LossyChannel(0.3), shape=shape).send(x)
    beside, delivered = channel(*quiet, LossyChannel(0.3), shape=shape).send(x)
    np.testing.assert_array_equal(alone, beside)
    fewer = channel(LossyChannel(0.1), shape=shape).send(x)[1]
    assert (fewer | ~delivered).all(), "what is lost at 0.1 is lost at 0.3 too"


def test_the_budget_counts_what_is_sent() -> None:
    env = Privatize(tiny.consensus_v0.population(num_envs=2), "vote", BitwiseRandomizedResponse(1.0), Budget(3.0))
    env = Faulty(env, "vote", LossyChannel(0.5))
    run = taciturn.simulate(env, Random(), seed=0)
    assert (run.accountant.messages("vote") == 3).all()


def test_counts_that_need_messages() -> None:
    one = channel(Churn(0.5, 0.5), shape=(1, 2), payload="one_hot")
    with pytest.raises(ValueError, match="Churn on channel 'c' needs single messages"):
        one.tally(np.array([[1, 1]]))
    assert one.messages().tolist() == [[0, 0]]
    sums, received = one.tally(np.array([[1, 1]]), lambda: np.eye(2, dtype=np.int64)[None])
    assert sums.sum() == received.sum() <= 2


# Resets.


def test_partial_resets_forget_in_their_replicas_only() -> None:
    shape = (40, 8)
    ones, where = np.ones(shape), np.arange(40) < 20
    late = channel(Stragglers((0.0, 1.0)), shape=shape)
    late.send(ones)
    late.reset(40, where)
    _, delivered = late.send(ones)
    assert not delivered[where].any()
    assert delivered[~where].all()
    liars = channel(Byzantine(0.5, "constant"), shape=shape)
    before = liars.send(0 * ones)[0]
    liars.reset(40, where)
    after = liars.send(0 * ones)[0]
    assert (after.sum(1) == 4).all()
    np.testing.assert_array_equal(before[~where], after[~where])
    assert (before[where] != after[where]).any(1).sum() > 10
    brief = channel(MessageLimit(1), shape=shape)
    brief.send(ones)
    brief.reset(40, where)
    np.testing.assert_array_equal(brief.send(ones)[1].all(1), where)
    away = channel(Churn(1.0, 0.0), shape=shape)
    away.send(ones)
    assert not away.faults.memory[0]["present"].any()
    away.reset(40, where)
    np.testing.assert_array_equal(away.faults.memory[0]["present"].all(1), where)
    assert not channel(Churn(1.0, 0.0), shape=shape).send(ones)[1].any()


def test_done_replicas_stand_still() -> None:
    shape = (2, 50)
    x = np.ones(shape)
    one = channel(*FAULTS.values(), shape=shape)
    one.send(x)
    memory = copy.deepcopy(one.faults.memory)
    one.live = np.array([True, False])
    _, delivered = one.send(x)
    assert not delivered[1].any()
    for before, after in zip(memory, one.faults.memory, strict=True):
        for name in before:
            np.testing.assert_array_equal(before[name][1], after[name][1])
    assert (memory[0]["present"][0] != one.faults.memory[0]["present"][0]).any()


def test_reset_reseeds_faults() -> None:
    env = Faulty(tiny.consensus_v0.population(num_envs=3), "opinion", LossyChannel(0.5))
    actions = np.ones((3, 4), np.int64)

    def play(seed: int | None, where: Array | None = None) -> Array:
        env.reset(seed=seed, where=where)
        return np.concatenate([np.asarray(env.step(actions).observation) for _ in range(5)])

    first = play(7)
    assert (play(None) != first).any()
    np.testing.assert_array_equal(play(7), first)
    np.testing.assert_array_equal(play(7, np.ones(3, np.bool_)), first)


# Interfaces.


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("form", forms())
def test_strikes_and_the_bare_environment_stays_bare(form: str, fault: Any) -> None:
    bare = forms()[form]
    before = rewards(bare)
    faulty = Faulty(bare, "update", fault)
    found = rewards(faulty)
    assert found != before
    assert rewards(bare) == before
    assert rewards(Faulty(bare, "update", LossyChannel(0.0))) == before, "the same luck but for the fault"
    assert rewards(faulty) == found
    assert faulty.accountant is None
    both, again = (
        rewards(Privatize(faulty, "update", NOISE)),
        rewards(Faulty(Privatize(bare, "update", NOISE), "update", fault)),
    )
    assert both == again != found
    assert rewards(Privatize(faulty, "update", NoPrivacy())) == found


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("form", forms())
def test_survives_pickling(form: str, fault: Any) -> None:
    faulty = Faulty(Privatize(forms()[form], "update", NOISE), "update", fault)
    first = rewards(pickle.loads(pickle.dumps(faulty)))
    assert rewards(faulty) == first
    assert rewards(pickle.loads(pickle.dumps(faulty))) == first, "in the middle of a run too"
    assert pickle.loads(pickle.dumps(fault)) == fault
    assert rewards(copy.deepcopy(faulty)) == first


def test_simulate_keeps_the_faults_of_a_wrapper() -> None:
    fault = LossyChannel(0.5)
    array = Faulty(federated_training_v0.population(1, **CLIENTS), "update", fault)
    single = Faulty(federated_training_v0.single_env(**CLIENTS), "update", fault)
    one, other = (taciturn.simulate(env, FixedCount(5), seed=0, privacy={"update": NOISE}) for env in (array, single))
    np.testing.assert_array_equal(one.metrics["test_loss"], other.metrics["test_loss"])
    clean = taciturn.simulate(
        federated_training_v0.population(1, **CLIENTS), FixedCount(5), seed=0, privacy={"update": NOISE}
    )
    np.testing.assert_array_equal(one.accountant.messages("update"), clean.accountant.messages("update"))
    assert (one.metrics["test_loss"] != clean.metrics["test_loss"]).all()
    with pytest.raises(ValueError, match="has a mechanism already"):
        taciturn.simulate(Privatize(single, "update", NOISE), FixedCount(5), seed=0, privacy={"update": NOISE})


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.privacy])
def test_runs_go_on_whatever_goes_wrong(name: str, fault: Any) -> None:
    """To the same end as without faults, at finite measures, and no message is charged that was not sent."""
    case = CASES[name]
    ((channel, distribution),) = case.privacy.items()
    bare = case.population(3) if distribution is None else Privatize(case.population(3), channel, distribution)
    policies = {role: Random() for role in bare.roles}
    wrapped = Faulty(bare, channel, fault)
    clean, faulty = (taciturn.simulate(env, policies, seed=0) for env in (bare, wrapped))
    assert faulty.metrics.keys() == clean.metrics.keys()
    np.testing.assert_array_equal(faulty.times, clean.times)
    for metric, values in clean.metrics.items():
        assert (np.isfinite(faulty.metrics[metric]) | ~np.isfinite(values)).all(), metric
    if distribution is not None:
        assert (faulty.accountant.messages(channel) <= wrapped.channels[channel].messages()).all()


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_federated_training_averages_what_arrived(weighting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = federated_training_v0.population(3, weighting=weighting, concentration=0.5, **CLIENTS | {"horizon": 40.0})
    env = Faulty(bare, "update", LossyChannel(0.6))
    env.reset(seed=0)
    sent: list[Any] = []
    send = env.channels["update"].send

    def spy(x: Array, senders: Array, *args: Any, **kwargs: Any) -> Any:
        y, delivered = send(x, senders, *args, **kwargs)
        sent.append((x, senders, delivered))
        return y, delivered

    monkeypatch.setattr(env.channels["update"], "send", spy)
    rounds = 0
    for step in range(60):
        before, sent = env.state, []
        env.step(np.full((3, 1), int(step % 12 != 11)))
        if not sent:
            continue
        ((x, senders, delivered),) = sent
        assert not (delivered & ~senders).any()
        size = (before.samples >= 0).sum(-1) if weighting == "samples" else np.ones(senders.shape)
        for b in np.flatnonzero(senders.any(1)):
            expected = before.parameters[b]
            if delivered[b].any():
                expected = expected + np.average(x[b, delivered[b]], axis=0, weights=size[b, delivered[b]])
            np.testing.assert_allclose(env.state.parameters[b], expected, atol=1e-6)
            rounds += int((senders[b] & ~delivered[b]).any())
    assert rounds > 5


# What is refused.


def test_refuses_at_reset_before_anything_changes() -> None:
    env = Privatize(federated_training_v0.single_env(**CLIENTS), "update", NOISE)
    env.reset(seed=0)
    state = env.unwrapped.population.state
    for asked in (ChannelConfig(NOISE), cast(Any, LossyChannel(0.5))):
        with pytest.raises(ValueError, match=r"has a mechanism already|must be a ChannelConfig"):
            env.reset(seed=1, options={"channels": {"update": asked}})
    assert env.unwrapped.population.state is state
    env.reset(seed=1, options={"channels": {"update": ChannelConfig(faults=(LossyChannel(0.5),))}})
    assert env.unwrapped.population.channels["update"].config.mechanism is NOISE
