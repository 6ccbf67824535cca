"""Logged data: the simulator fitted to ratings against its definition, and off-policy estimators against worlds whose
values are known."""

import bz2
import csv
import dataclasses
import gzip
import hashlib
import io
import lzma
import math
import os
import re
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import taciturn
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array
from taciturn.envs.recommender import rewards
from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.envs.recommender.instances import CONTEXT_SPREAD, CONTEXT_UNIFORM
from taciturn.logged import BanditLog, estimators, evaluate, fit_ratings, read_bandit
from taciturn.logged.reading import as_id, with_signs
from taciturn.logged.simulator import Simulator
from taciturn.policies import ItemUCB1, LinUCB, Policy, Random

# Of each statistical test; the numbers of logs in them follow from it.
ALARM = 1e-5

Row = tuple[str, str, float, float]


def ratings(users: int = 40, each: int = 25, items: int = 12, seed: int = 0) -> list[Row]:
    """Ratings of 1 to 5 whose law depends on user and item, with equal times among those of a user."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.standard_normal((users, 2)), rng.standard_normal((items, 2))
    found = []
    for user in range(users):
        begin = int(rng.integers(0, 1000))
        for _ in range(each):
            item = int(rng.integers(0, items))
            likes = rng.random() < 1 / (1 + np.exp(-3 * taste[user] @ kind[item]))
            rating = float(rng.integers(4, 6) if likes else rng.integers(1, 4))
            found.append((f"u{user}", f"i{item}", rating, float(begin + rng.integers(0, 12))))
    return found


def write(path: Path, rows: list[Row], header: str = "userId,movieId,rating,timestamp", mark: str = ",") -> Path:
    lines = [header] * bool(header) + [mark.join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def fitted(tmp_path: Path) -> Simulator:
    return fit_ratings(write(tmp_path / "ratings.csv", ratings()))


def same(one: Simulator, other: Simulator) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("items", "weights"))


# Ratings.


def by_definition(rows: list[Row], simulator: Simulator) -> tuple[Array, float, float]:
    """The contexts at held-out ratings, and the two held-out errors, computed rating by rating."""
    start = sorted(row[3] for row in rows)[int(0.8 * len(rows))]
    train = [row for row in rows if row[3] < start]
    names = sorted({row[1] for row in train}, key=lambda name: -sum(row[1] == name for row in train))
    # Items with equal numbers of ratings are in the order of the file.
    order = list(dict.fromkeys(row[1] for row in rows))
    names = sorted(names, key=lambda name: (-sum(row[1] == name for row in train), order.index(name)))
    mean = np.mean([row[2] >= 4 for row in train])
    tastes = simulator.items - simulator.items.mean(0)

    def raw(row: Row) -> list[float]:
        past = [other for other in rows if other[0] == row[0] and other[3] < row[3]]
        terms = [[(r >= 4) - mean, *(((r >= 4) - mean) * tastes[names.index(item), :2])] for _, item, r, _ in past]
        return [sum(term[i] for term in terms) / (len(past) + 5) for i in range(3)]

    early = np.array([raw(row) for row in train])
    late = [row for row in rows if row[3] >= start]
    contexts = np.clip(0.5 + (np.array([raw(row) for row in late]) - early.mean(0)) / (6 * early.std(0)), 0, 1)
    mu = simulator(contexts, np.array([simulator.items[names.index(row[1])] for row in late]))
    like = np.array([row[2] >= 4 for row in late])
    return contexts, float(((like - mu) ** 2).mean()), float(((like - mean) ** 2).mean())


def test_contexts_and_errors_by_definition(tmp_path: Path) -> None:
    rows = ratings()
    simulator = fit_ratings(write(tmp_path / "ratings.csv", rows))
    contexts, error, mean_error = by_definition(rows, simulator)
    found = simulator.held_out
    assert found.rows == len(contexts)
    assert found.mean_error == pytest.approx(mean_error, rel=1e-9)
    assert found.error == pytest.approx(error, rel=1e-5)
    assert found.low < found.mean_error - found.error < found.high
    order = [np.lexsort(x.T) for x in (np.round(contexts, 5), np.round(simulator.contexts, 5))]
    np.testing.assert_allclose(simulator.contexts[order[1]], contexts[order[0]], atol=2e-5)


def test_the_simulator_knows_more_than_the_mean_where_there_is_something_to_know(tmp_path: Path) -> None:
    told = fit_ratings(write(tmp_path / "a.csv", ratings(400)))
    assert told.held_out.low > 0.02
    rng = np.random.default_rng(1)
    noise = [(user, item, float(rng.integers(1, 6)), time) for user, item, _, time in ratings(400)]
    blind = fit_ratings(write(tmp_path / "b.csv", noise))
    assert blind.held_out.low < 0
    assert "not shown to know more than the mean" in repr(blind)
    assert "not shown" not in repr(told)


def test_nothing_is_learned_from_held_out_ratings(tmp_path: Path) -> None:
    rows = ratings()
    start = sorted(row[3] for row in rows)[int(0.8 * len(rows))]
    other = [(user, item, 6 - rating if time >= start else rating, time) for user, item, rating, time in rows]
    one, two = (fit_ratings(write(tmp_path / f"{i}.csv", each)) for i, each in enumerate((rows, other)))
    assert same(one, two)
    assert one.held_out.error != two.held_out.error
    late = [(user, item, 6 - rating if time < start else rating, time) for user, item, rating, time in rows]
    assert not same(one, fit_ratings(write(tmp_path / "late.csv", late)))


def test_files_of_every_shape_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ratings()
    one = fit_ratings(write(tmp_path / "ratings.csv", rows))
    shapes: list[tuple[str, str]] = [("", ","), ("", "::"), ("user,item,rating,timestamp", ","), ("", "\t"), ("", ";")]
    for header, mark in shapes:
        assert same(one, fit_ratings(write(tmp_path / "ratings.dat", rows, header, mark)))
    more = ["item,timestamp,user,rating,title"] + [f'{i},{t},{u},{r},"a, b"' for u, i, r, t in rows]
    (tmp_path / "more.csv").write_text("\n".join(more), encoding="utf-8")
    assert same(one, fit_ratings(tmp_path / "more.csv"))
    # Chunks of any size, and users in blocks.
    monkeypatch.setattr("taciturn.logged.reading.CHUNK", 7)
    monkeypatch.setattr("taciturn.logged.ratings.ROWS", 60)
    again = fit_ratings(tmp_path / "ratings.csv")
    np.testing.assert_allclose(one.weights, again.weights, atol=1e-9)
    np.testing.assert_array_equal(np.unique(one.contexts, axis=0), np.unique(again.contexts, axis=0))


GOOD = "user,item,rating,timestamp\na,x,5,1\na,y,1,2\nb,x,4,3\nb,y,2,4\nb,x,5,5\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["empty"]),
        ("user,item,rating,timestamp\n", ["empty"]),
        (GOOD + "c,x,good,6\n", ["line 7", "rating", "'good'"]),
        (GOOD + "c,x,nan,6\n", ["line 7", "rating", "'nan'"]),
        (GOOD + "c,x,4\n", ["line 7", "4 cells", "are 3"]),
        (GOOD + "c,x,4,yesterday\n", ["line 7", "timestamp", "'yesterday'"]),
        (GOOD + 'c,"x,4,6\n', ["line 7"]),
        ("user,film,rating,timestamp\na,x,5,1\n", ["line 1", "'item'", "film"]),
        ("user,item,rating,timestamp,userId\na,x,5,1,a\n", ["line 1", "'user' and 'userId'", "--column user=user"]),
        ("user,itemId,movieId,rating,time\n", ["line 1", "must be the item", "'itemId' and 'movieId'"]),
        ("who,what,stars,when\na,x,5,1\n", ["line 1", "'user'", "--column user=HEADER", "'who', 'what'"]),
        (GOOD + "c,x,1e39,6\n", ["line 7", "rating", "from -1e+18 to 1e+18", "'1e39'"]),
        (GOOD + "c,x,4_9,6\n", ["line 7", "rating", "'4_9'"]),
        (GOOD + "c,x,٤,6\n", ["line 7", "rating", "'٤'"]),
        (GOOD + "c,x,4,1_0\n", ["line 7", "timestamp", "'1_0'"]),
        (GOOD + "c,x,4,2020-01-01\n", ["line 7", "timestamp", "a number as in the first row", "'2020-01-01'"]),
        (GOOD.replace("5,1\n", "5,2020-01-01\n"), ["line 3", "timestamp", "a date", "as in the first row", "'2'"]),
        (GOOD.replace("5,1\n", "5,1/2/2020\n"), ["line 2", "timestamp", "a number or a date", "'1/2/2020'"]),
        ('{"user": "a", "item": "x", "rating": 5}\n', ["line 1", 'a table in text or Parquet, not \'{"user": "a"']),
        ("<!DOCTYPE html>\n<html>\n", ["line 1", "a table in text or Parquet, not '<!DOCTYPE html>'"]),
        *((GOOD + f"{name},x,4,6\n", ["line 7", "user must be given"]) for name in ("", " ", "NA", "nan", "NULL")),
        (GOOD + "c,None,4,6\n", ["line 7", "item must be given", "'None'"]),
        ("a,x,5\n", ["line 1", "'timestamp'"]),
        (re.sub(r",\d\n", ",0\n", GOOD), ["timestamps", "equal"]),
        (GOOD.replace("5,", "4,").replace("1,2", "4,2").replace("2,4", "4,4"), ["like", "100%"]),
    ],
)
def test_what_is_wrong_with_ratings_is_told(tmp_path: Path, text: str, named: list[str]) -> None:
    (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the parts of the message are checked below
        fit_ratings(tmp_path / "bad.csv")
    for part in ["bad.csv", *named]:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def parquet(text: str) -> bytes:
    """The table of a text, with numbers as numbers."""
    from pyarrow import BufferOutputStream, BufferReader, csv
    from pyarrow.parquet import write_table

    found = BufferOutputStream()
    write_table(csv.read_csv(BufferReader(text.encode())), found)
    return bytes(found.getvalue())


def zipped(content: dict[str, str]) -> bytes:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    return found.getvalue()


FORMS: dict[str, Callable[[str], bytes]] = {
    "gzip": lambda text: gzip.compress(text.encode(), mtime=0),
    "bzip2": lambda text: bz2.compress(text.encode()),
    "xz": lambda text: lzma.compress(text.encode()),
    "zip": lambda text: zipped({"ml/": "", "ml/ratings.csv": text, "__MACOSX/ml/._ratings.csv": ""}),
    "Parquet": parquet,
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big-endian, compressed": lambda text: gzip.compress(b"\xfe\xff" + text.encode("utf-16-be"), mtime=0),
    "UTF-8 with a mark": lambda text: text.encode("utf-8-sig"),
    "lines that end as in Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "lines that end as in old Macintoshes": lambda text: text.replace("\n", "\r").encode(),
    "bars": lambda text: text.replace(",", "|").encode(),
    "separators in quoted headers": lambda text: (
        text.replace("timestamp", 'timestamp,"a;b\tc::d|e;f;g;h"').replace("\n", ",1\n").replace('h",1', 'h"').encode()
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_files_in_any_form_say_the_same(form: str, tmp_path: Path) -> None:
    plain = write(tmp_path / "ratings.csv", ratings())
    (tmp_path / "other").write_bytes(FORMS[form](plain.read_text(encoding="utf-8")))
    one, other = map(fit_ratings, (plain, tmp_path / "other"))
    assert same(one, other)
    np.testing.assert_array_equal(one.contexts, other.contexts)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("form", ["gzip", "zip", "Parquet", "UTF-8 with a mark"])
def test_pipes_are_read(form: str, tmp_path: Path) -> None:
    plain, pipe = write(tmp_path / "ratings.csv", ratings()), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(FORMS[form](plain.read_text(encoding="utf-8")),))
    writer.start()
    assert same(fit_ratings(plain), fit_ratings(pipe))
    writer.join()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (gzip.compress(GOOD.encode(), mtime=0)[:-9], "line"),
        (gzip.compress(GOOD.encode() + b"\xff,x,4,6\n", mtime=0), "line 7: text must be UTF-8 or UTF-16"),
        (bz2.compress(GOOD.encode())[:20] + b"x" * 40, "line 1"),
        (lzma.compress(GOOD.encode())[:-20], "line"),
        (zipped({"a": GOOD, "b": GOOD}), "line 1: an archive must have one file, and there are ['a', 'b']: unpack it"),
        (zipped({"a": GOOD})[:-30], "line 1"),
        (zipped({"[Content_Types].xml": "", "xl/a.xml": ""}), "line 1: there must be a table in text or Parquet, and"),
        (parquet(GOOD)[:-30], "row"),
        (parquet(GOOD + "c,x,,6\n"), "row 6: rating must be"),
        (GOOD.encode("utf-16") + b"\x00", "line 7: text must be UTF-8 or UTF-16"),
        (GOOD.encode("utf-16") + b"\x00\xd8\n\x00", "line 7: text must be UTF-8 or UTF-16"),
        (gzip.compress(b"0" * 2_000_000, mtime=0), "line 1: a line must have less than 1,000,000 characters"),
    ],
)
def test_files_that_are_damaged_are_refused(content: bytes, named: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"bad, {named}")):
        fit_ratings(tmp_path / "bad")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("User ID,Movie-Id,Rating,time", {}),
        ("customer,sku,stars,when", {"user": "customer", "item": "sku", "rating": "stars", "timestamp": "when"}),
        # What the header calls by a usual name is another column's, or ignored.
        ("item,user,rating,timestamp", {"user": "item", "item": "user"}),
    ],
)
def test_headers_are_known_or_chosen(header: str, columns: dict[str, str], tmp_path: Path) -> None:
    rows = ratings()
    plain = fit_ratings(write(tmp_path / "ratings.csv", rows))
    assert same(plain, fit_ratings(write(tmp_path / "other.csv", rows, header), columns=columns))
    with pytest.raises(ValueError, match=r"column user=nobody must name one of \['"):
        fit_ratings(tmp_path / "other.csv", columns={"user": "nobody"})
    with pytest.raises(ValueError, match="column users=a must name one of user, item, rating, timestamp"):
        fit_ratings(tmp_path / "other.csv", columns={"users": "a"})


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("7", "7.0", True), ("7", "07", True), ("7", " 7 ", True), ("0", "-0.00", True), ("1.50", "1.5", True),
        ("12345678901234567890123456789012", "12345678901234567890123456789013", False), ("7", "-7", False),
        ("7", "70", False), ("7", "7.01", False), ("a7", "a7.0", False), ("1e3", "1000", False), ("٧", "7", False),
        ("A", "a", False), ("\u00e9a", "e\u0301a", True), ("ea", "e\u0301a", False),
    ],
)  # fmt: skip
def test_equal_numbers_are_one_id(one: str, other: str, alike: bool, tmp_path: Path) -> None:
    assert (as_id(one) == as_id(other)) == alike


def test_ids_that_are_equal_numbers_are_one_in_both_readers(tmp_path: Path) -> None:
    rows = [(user[1:], item[1:], rating, time) for user, item, rating, time in ratings()]
    mixed = [
        (f"{user}.0" if i % 2 else user, f"0{item}" if i % 3 else item, *_) for i, (user, item, *_) in enumerate(rows)
    ]
    one, other = (fit_ratings(write(tmp_path / "ratings.csv", some)) for some in (rows, mixed))
    assert same(one, other)
    assert one.held_out == other.held_out
    (tmp_path / "log.csv").write_text(LOG.replace(",a,", ",7,").replace("3,7,", "3,7.0,").replace(",b,", ",8,"))
    (tmp_path / "items.csv").write_text("item_id,price\n8.0,3\n07,1\n")
    log = read_bandit(tmp_path / "log.csv", items=tmp_path / "items.csv", position="1.0", context=["context_0"])
    assert (log.names, log.action.tolist(), log.positions) == (["7", "8"], [0, 0], {"1": 2})
    assert log.catalogue.items[:, 0].tolist() == [0.0, 1.0]


def test_text_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_bytes(GOOD.encode() + b"\xff,x,4,6\n")
    with pytest.raises(ValueError, match=r"bad\.csv, line 7: text must be UTF-8"):
        fit_ratings(tmp_path / "bad.csv")


def test_a_simulator_is_a_world(fitted: Simulator) -> None:
    env = recommender_v0.population(2, family=fitted, num_agents=3, horizon=20)
    p = env.params
    assert (p.num_items, p.repository, p.context_dim) == (12, 6, 3)
    env.reset(seed=0)
    np.testing.assert_array_equal(env.state.items[1], fitted.items)
    pool = {tuple(context) for context in fitted.contexts}
    seen = set()
    for _ in range(10):
        shown = env.state.contexts.reshape(-1, 3)
        seen |= {tuple(context) for context in shown}
        action = env.state.active.argmax(-1)
        step = env.step(action)
        expected = fitted(shown, fitted.items[action.ravel()])
        np.testing.assert_allclose(step.info["mu"]["agent"].ravel(), expected, rtol=1e-12)
    assert seen <= pool
    assert len(seen) > 20
    # Whoever looks is told what it is.
    assert "simulator fitted to ratings.csv" in env.describe()
    assert "simulator fitted to ratings.csv" in repr(fitted)
    assert env.practice(1).params.family == "peak"
    for policy in ("TPriDO", "LinUCB", "ItemUCB1", lambda rows: np.zeros(len(rows), np.int64)):
        run = taciturn.simulate(env, policy, seed=0)
        assert 0 <= run.metrics["expected_reward"].min() <= run.metrics["expected_reward"].max() <= 1
    assert taciturn.simulate(env, "OracleItem", seed=0).metrics["regret"].max() == 0
    parallel = recommender_v0.parallel_env(family=fitted, num_agents=2, horizon=3)
    parallel.reset(seed=1)


def test_a_world_has_the_sizes_of_its_catalogue(fitted: Simulator) -> None:
    sizes: dict[str, Any] = {"num_items": 13, "context_dim": 2}
    for name, value in sizes.items():
        with pytest.raises(ValueError, match=rf"{name} must be that of family, which is \d+, not {value}"):
            recommender_v0.population(family=fitted, **{name: value})
    with pytest.raises(ValueError, match="items must be rows of 5 numbers"):
        Catalogue(np.full((3, 4), 0.5), fitted.contexts, "x")
    with pytest.raises(ValueError, match="contexts must be rows of 1 to 9 numbers"):
        Catalogue(fitted.items, np.full((3, 2), 1.5), "x")


# Estimators.


def obp_stream() -> tuple[Array, ...]:
    """Contexts, actions, clicks, propensities of all actions, the probabilities of a policy, and a model of clicks."""
    rng = np.random.default_rng(7)
    n, k = 400, 5
    contexts, action = rng.random((n, 3)), rng.integers(0, k, n)
    click = (rng.random(n) < 0.2 + 0.6 * contexts[:, 0] * (action % 2)).astype(float)
    logging = rng.dirichlet(np.full(k, 2.0), n) * 0.9 + 0.02
    target = rng.dirichlet(np.full(k, 0.5), n)
    return contexts, action, click, logging, target, rng.random((n, k))


# What Open Bandit Pipeline 0.4.1 computes from that stream: `ReplayMethod` for the most probable action,
# `InverseProbabilityWeighting`, `SelfNormalizedInverseProbabilityWeighting` and `DoublyRobust` for the probabilities.
OBP = {
    "replay": 0.42352941176470593,
    "ips": 0.5609455763018686,
    "snips": 0.37046546246957135,
    "dr": 0.30351111526256364,
}


def test_estimators_are_those_of_open_bandit_pipeline() -> None:
    _, action, click, logging, target, model = obp_stream()
    at = np.arange(action.size), action
    weight = target[at] / logging[at]
    terms = {
        "replay": estimators.replay(click[target.argmax(1) == action]),
        "ips": estimators.ips(weight, click, 50.0),
        "snips": estimators.snips(weight, click, 50.0),
        "dr": estimators.dr(weight, click, 50.0, model[at], (target * model).sum(1), 1.0),
    }
    assert {name: one.value for name, one in terms.items()} == pytest.approx(OBP, rel=1e-12)


# The choices of `LinUCB(dim=4, n_actions=5, epsilon=0.7)` of Open Bandit Pipeline 0.4.1 in rows 60 to 399 of the same
# stream, where it learned from every row.
OBP_LINUCB = "f7e57ba6dc9b38762e1022279a5158bd90ceca2497f649a47da77857cf8aa179"


def disjoint(alpha: float) -> LinUCB:
    env = recommender_v0.population(1, num_agents=1, num_items=5, repository=5, context_dim=3, horizon=400)
    policy = LinUCB("disjoint", alpha=alpha)
    env.reset(seed=0)
    policy.reset(env, np.random.default_rng(0))
    return policy


def test_linucb_chooses_what_open_bandit_pipelines_chooses() -> None:
    contexts, action, click, *_ = obp_stream()
    policy, chosen = disjoint(0.7), []
    for t in range(400):
        if t >= 60:
            chosen.append(int(policy.choose(contexts[t][None, None])[0, 0]))
        policy.learn(contexts[t][None, None], action[t][None, None], click[t][None, None], np.ones((1, 1), np.bool_))
    assert len(set(chosen)) == 5
    assert hashlib.sha256(str(chosen).encode()).hexdigest() == OBP_LINUCB


def test_linucb_believes_what_rivers_believes() -> None:
    """River's variance has the noise's, 1, in it."""
    from river.bandit import LinUCBDisjoint

    contexts, action, click, *_ = obp_stream()
    policy = disjoint(0.7)
    theirs: Any = LinUCBDisjoint(alpha=1.0, beta=1.0, seed=0)
    for t in range(400):
        x = np.concatenate([[1.0], 2 * contexts[t] - 1])
        named = dict(enumerate(x))
        if t % 20 == 0 and t:
            mean, variance = policy.predict(0, 0, contexts[t])
            beliefs = [theirs._bayes_lin_regs[k].predict_one(named, with_dist=True) for k in range(5)]
            np.testing.assert_allclose(mean, [one.mu for one in beliefs], atol=1e-8)
            np.testing.assert_allclose(variance + 1, [one.sigma**2 for one in beliefs], atol=1e-8)
        policy.learn(contexts[t][None, None], action[t][None, None], click[t][None, None], np.ones((1, 1), np.bool_))
        theirs.update(int(action[t]), named, float(click[t]))


class World:
    """Logs drawn from a recommender with one agent and 5 items, by a policy whose propensities are known, and the value
    of another."""

    def __init__(self, uniform: bool = False) -> None:
        self.env: Any = recommender_v0.population(
            1, num_agents=1, graph="none", family="linear", num_items=5, repository=5
        )
        self.env.reset(seed=16)
        self.uniform, self.luck = uniform, np.random.default_rng(3)
        contexts = self.contexts(200_000)
        self.value = float(self.mu(contexts)[np.arange(len(contexts)), self.target(contexts)].mean())

    def contexts(self, rows: int) -> Array:
        """Contexts of new users, from the distribution of the world."""
        centres, rng = self.env.state.centres[0], self.luck
        which = rng.integers(0, len(centres), rows)
        near = centres[which] + CONTEXT_SPREAD * rng.standard_normal((rows, centres.shape[1]))
        anywhere = rng.random(rows)[:, None] < CONTEXT_UNIFORM
        points = np.where(anywhere, rng.random((rows, centres.shape[1])), near)
        return np.clip(points, 0, 1).astype(np.float32).astype(np.float64)

    def mu(self, contexts: Array) -> Array:
        state = self.env.state
        items = np.broadcast_to(state.items, (len(contexts), 5, 5))
        found = rewards.means("linear", np.repeat(contexts[:, None], 5, 1), items, self.env.instance(state))
        # Rare, as clicks are, and unequal.
        return np.asarray(np.clip(3 * (found - 0.45), 0.02, 0.9))

    def target(self, contexts: Array) -> Array:
        """A policy that is neither the logging one nor the best."""
        return np.asarray(np.where(contexts[:, 0] > 0.5, 1, 3))

    def propensities(self, contexts: Array) -> Array:
        if self.uniform:
            return np.full((len(contexts), 5), 0.2)
        score = np.exp(2 * contexts[:, :1] * np.linspace(1, -1, 5))
        return np.asarray(0.8 * score / score.sum(1, keepdims=True) + 0.04)

    def log(self, rows: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
        """Contexts, actions, clicks and propensities."""
        contexts = self.contexts(rows)
        p = self.propensities(contexts)
        action = (p.cumsum(1) > rng.random((rows, 1))).argmax(1)
        at = np.arange(rows), action
        return contexts, action, rng.random(rows) < self.mu(contexts)[at], p[at]


def estimates(world: World, logs: int, rows: int) -> dict[str, list[tuple[float, Any]]]:
    """The estimates of many logs, and what they are made of. DR's model is bad on purpose."""
    rng = np.random.default_rng(5)
    found: dict[str, list[tuple[float, Any]]] = {}
    for _ in range(logs):
        contexts, action, click, p = world.log(rows, rng)
        target, reward = world.target(contexts), click.astype(float)
        weight = (action == target) / p
        model = np.clip(world.mu(contexts)[:, ::-1] + 0.1, 0, 1)
        at, largest = np.arange(rows), 25.0
        terms = {
            "ips": estimators.ips(weight, reward, largest),
            "snips": estimators.snips(weight, reward, largest),
            "dr": estimators.dr(weight, reward, largest, model[at, action], model[at, target], 1.0),
        }
        if world.uniform:
            terms["replay"] = estimators.replay(reward[action == target])
        for name, one in terms.items():
            found.setdefault(name, []).append((one.value, one))
    return found


@pytest.mark.parametrize("uniform", [True, False])
def test_estimates_are_right_on_average(uniform: bool) -> None:
    """SNIPS is so up to a bias of the order of one over the rows, for which there is room."""
    world = World(uniform)
    for name, found in estimates(world, 300, 400).items():
        values = np.array([value for value, _ in found])
        error = values.std(ddof=1) / np.sqrt(values.size)
        room = 1.0 / 400 if name == "snips" else 0.0
        assert abs(values.mean() - world.value) < stats.norm.isf(ALARM / 2) * error + room, name
        assert error < 0.005  # so that a mistake would be seen


@pytest.mark.slow
@pytest.mark.parametrize("kind", estimators.INTERVALS)
def test_intervals_hold(kind: str) -> None:
    """95% intervals miss the value in no more logs than 5% of them can, by chance; betting's also with few rows."""
    for rows in (30, 400) if kind == "betting" else (1500,):
        for world in (World(True), World()):
            for name, found in estimates(world, 150, rows).items():
                missed = 0
                for _, terms in found:
                    if terms.a.size and terms.b.sum():
                        low, high = estimators.interval(terms, kind)
                        missed += not low <= world.value <= high
                # An approximate interval is allowed 7%.
                assert missed <= stats.binom.isf(ALARM, 150, 0.05 if kind == "betting" else 0.07), (name, rows)


def test_intervals_are_no_wider_than_they_must_be() -> None:
    """Less than 2.5 times as wide as Student's."""
    for world in (World(True), World()):
        for name, found in estimates(world, 5, 3000).items():
            for _, terms in found:
                wide, narrow = (np.diff(estimators.interval(terms, kind))[0] for kind in estimators.INTERVALS)
                assert narrow < wide < 2.5 * narrow, name


def test_replays_interval_holds_for_whoever_learns() -> None:
    """Mean rewards that follow the rewards before: the interval is about their mean."""
    rng, missed, logs = np.random.default_rng(2), 0, 300
    for _ in range(logs):
        reward, mean, p = np.zeros(200), np.zeros(200), 0.5
        for t in range(200):
            mean[t], reward[t] = p, rng.random() < p
            p = min(max(p + (0.05 if reward[t] else -0.05), 0.05), 0.95)
        low, high = estimators.interval(estimators.replay(reward))
        missed += not low <= mean.mean() <= high
    assert missed <= stats.binom.isf(ALARM, logs, 0.05)


def test_intervals_of_small_samples_by_hand() -> None:
    """Ten successes: with stakes 1 / 2^j, prod(1 + s (1 - v)) against 40; no failure, so that 1 is possible."""
    low, high = estimators.interval(estimators.replay(np.ones(10)))
    assert high == 1.0
    least = np.sqrt(2 * np.log(40) / 10)
    stakes = 0.5 ** np.arange(1 + np.ceil(np.log2(1 / least)))
    assert np.mean((1 + stakes * (1 - low)) ** 10) == pytest.approx(40, rel=1e-6)
    nothing = estimators.interval(estimators.replay(np.zeros(10)))
    assert nothing == pytest.approx((0.0, 1 - low), abs=1e-8)
    assert estimators.interval(estimators.ips(np.array([2.0]), np.ones(1), 2.0), "student") == (0.0, 1.0)


shares = st.floats(0, 1)


@given(st.lists(st.tuples(shares, shares, shares, shares), min_size=1, max_size=6), st.floats(1, 50), shares, shares)
def test_the_bounds_behind_intervals_hold_and_are_reached(
    rows: list[tuple[float, ...]], largest: float, cap: float, value: float
) -> None:
    """a - v b lies between -down and up, whatever the weights, rewards, model and value, and both are reached: the
    inequality behind betting needs no less, and more would widen intervals."""
    weight, reward, logged, chosen = np.array(rows).T * np.array([[largest], [1], [cap], [cap]])
    one, zero = np.ones(1), np.zeros(1)
    high, low = largest * one, cap * one
    kinds = {
        "replay": [estimators.replay(x) for x in (reward, one, zero)],
        "ips": [estimators.ips(w, r, largest) for w, r in ((weight, reward), (high, one), (zero, zero))],
        "snips": [estimators.snips(w, r, largest) for w, r in ((weight, reward), (high, one), (high, zero))],
        "dr": [
            estimators.dr(weight, reward, largest, logged, chosen, cap),
            estimators.dr(high, one, largest, zero, low, cap),
            estimators.dr(high, zero, largest, low, zero, cap),
        ],
    }
    assert set(kinds) == set(estimators.ESTIMATORS)
    for drawn, best, worst in kinds.values():
        y = drawn.a - value * drawn.b
        assert -drawn.down - 1e-9 <= y.min() <= y.max() <= drawn.up + 1e-9
        assert best.a[0] == pytest.approx(best.up)
        assert worst.b[0] - worst.a[0] == pytest.approx(worst.down)
        for reach in (drawn.down, drawn.up):
            assert estimators._stakes(drawn, reach, 3.0).max() * reach <= 1 + 1e-12, "no row ruins a bet"


def test_effective_size_by_hand() -> None:
    assert estimators.effective_size(np.array([3.0, 1.0, 0.0])) == pytest.approx(16 / 10)
    assert estimators.effective_size(np.zeros(3)) == 0


# Logs.


def write_log(
    path: Path,
    action: Array,
    click: Array,
    p: Array,
    contexts: Array,
    more: Callable[[int], dict[str, Any]] = lambda i: {},
) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = [
            {"": i, "item_id": f"item {action[i]}", "click": int(click[i]), "propensity_score": float(p[i])}
            | {f"user_feature_{j}": float(x) for j, x in enumerate(contexts[i])}
            | more(i)
            for i in range(len(action))
        ]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def uniform_log(tmp_path: Path) -> BanditLog:
    world, rng = World(True), np.random.default_rng(0)
    contexts, action, click, p = world.log(600, rng)
    return read_bandit(write_log(tmp_path / "uniform.csv", action, click, p, contexts))


@pytest.fixture
def softmax_log(tmp_path: Path) -> BanditLog:
    world, rng = World(), np.random.default_rng(0)
    contexts, action, click, p = world.log(600, rng)
    return read_bandit(write_log(tmp_path / "softmax.csv", action, click, p, contexts))


class Watcher(Policy):
    """Shows item 1 or 3 by the context, and remembers what it is told."""

    def begin(self, view: Any) -> None:
        self._slices, self._num = view.roles[self.role].layout.slices, view.params.num_items
        self.names = view.catalogue()[0].shape
        self.told: list[tuple[float, int, float]] = []
        self.times: list[int] = []

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        assert mask is not None
        assert mask.shape == (1, 1, 2 * self._num)
        assert mask.all()
        self.times.append(int(obs[0, 0, self._slices["time"]][0]))
        return np.where(obs[..., self._slices["context"].start] > 0.5, 1, 3 + self._num)  # asks as well, to no avail

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self.told.append((float(obs[0, 0, 0]), int(action[0, 0]), float(reward[0, 0])))


def watched(log: BanditLog) -> Array:
    return np.where(log.catalogue.contexts[:, 0] > 0.5, 1, 3)


def test_replay_is_algorithm_2(uniform_log: BanditLog) -> None:
    policy = Watcher()
    (found,) = evaluate(uniform_log, policy)
    match = watched(uniform_log) == uniform_log.action
    assert (found.estimator, found.matches, found.rows) == ("replay", match.sum(), 600)
    assert found.value == uniform_log.click[match].mean()
    assert found.effective == match.sum()
    assert found.mean_weight == pytest.approx(5 * match.mean())
    heard = np.column_stack([uniform_log.catalogue.contexts[:, 0], uniform_log.action, uniform_log.click])[match]
    np.testing.assert_allclose(policy.told, heard, rtol=1e-6)
    assert policy.times == [int(match[:i].sum()) for i in range(600)]


def test_the_other_estimators_judge_what_the_first_part_taught(softmax_log: BanditLog) -> None:
    log, policy = softmax_log, Watcher()
    found = {one.estimator: one for one in evaluate(log, policy, learn=0.25)}
    heard = np.column_stack([log.catalogue.contexts[:, 0], log.action, log.click])[:150]
    np.testing.assert_allclose(policy.told, heard, rtol=1e-6)
    assert policy.times == [*range(150), *[150] * 450]
    weight = ((watched(log) == log.action) / log.propensity)[150:]
    click = log.click[150:]
    assert found["ips"].value == pytest.approx((weight * click).mean())
    assert found["snips"].value == pytest.approx((weight * click).sum() / weight.sum())
    for one in found.values():
        assert (one.rows, one.matches) == (450, (weight > 0).sum())
        assert one.effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
        assert one.mean_weight == pytest.approx(weight.mean())
        assert one.low < one.value < one.high
    x = np.concatenate([np.ones((600, 1)), 2 * log.catalogue.contexts - 1], 1)
    q, mean = np.zeros((600, 5)), log.click[:150].mean()
    for k in range(5):
        own = np.flatnonzero(log.action[:150] == k)
        fit = np.linalg.solve(x[own].T @ x[own] + 10 * np.eye(3), x[own].T @ (log.click[own] - mean))
        q[:, k] = mean + x @ fit
    cap = max(mean, q[np.arange(150), log.action[:150]].max())
    q = np.clip(q, 0, cap)[150:]
    i = np.arange(450)
    by_hand = (q[i, watched(log)[150:]] + weight * (click - q[i, log.action[150:]])).mean()
    assert found["dr"].value == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("change", "doubted"),
    [
        (lambda p: p, ""),
        (np.ones_like, "Random has a mean weight of 0.2,"),
        (lambda p: np.minimum(2 * p, 1), "Random has a mean weight of 0.5"),
        (lambda p: p / 2, "Random has a mean weight of 2"),
        (lambda p: np.where(np.arange(p.size) == 500, 1e-11, p), "Random has a mean weight of 3.3"),
        (lambda p: np.full_like(p, 0.2), "the policy has a mean weight of"),
    ],
)
def test_propensities_that_the_log_excludes_give_no_interval(
    change: Callable[[Array], Array], doubted: str, softmax_log: BanditLog
) -> None:
    log = dataclasses.replace(softmax_log, propensity=change(softmax_log.propensity))
    for one in evaluate(log, lambda rows: np.full(len(rows), 4), estimator="all"):
        assert doubted in one.doubt
        assert bool(one.doubt) == bool(doubted) == math.isnan(one.low) == math.isnan(one.high)


def test_right_propensities_are_not_doubted() -> None:
    """By design 1 log in 1,000 is; here 2 of 500 may be (alarm: 1e-4 and less as betting's bound is not reached)."""
    world, rng, doubted = World(), np.random.default_rng(4), 0
    for rows in (30, 400):
        for _ in range(250):
            _, action, _, p = world.log(rows, rng)
            doubted += estimators.excluded(1 / (5 * p), 5.0) + estimators.excluded((action == 4) / p, 25.0)
    assert doubted <= 2


def test_the_value_of_a_world_is_found_through_a_file(tmp_path: Path) -> None:
    """End to end: 95% intervals of 20 logs, of which 8 may miss (alarm 1e-5 and less)."""
    missed = {"ips": 0, "snips": 0, "dr": 0}
    world, rng = World(), np.random.default_rng(9)

    for i in range(20):
        contexts, action, click, p = world.log(300, rng)
        # The corners keep the scale of contexts as it is.
        contexts[:2] = [[0, 0], [1, 1]]
        action[:5] = range(5)
        log = read_bandit(write_log(tmp_path / f"{i}.csv", action, click, p, contexts))
        assert log.names[1] == "item 1"
        for one in evaluate(log, Watcher(), learn=0.1):
            missed[one.estimator] += not one.low <= world.value <= one.high
    assert max(missed.values()) <= stats.binom.isf(ALARM, 20, 0.05)


def test_draws_are_shares(softmax_log: BanditLog) -> None:
    few, many = (evaluate(softmax_log, Random(), estimator="ips", draws=draws)[0] for draws in (1, 20))
    assert many.effective > 2 * few.effective
    assert many.matches > few.matches
    assert many.mean_weight == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("policy", ["TPriDO", "LinUCB"])
def test_policies_of_the_recommender_play_on_logs(uniform_log: BanditLog, policy: str) -> None:
    found = evaluate(uniform_log, policy, estimator="all", seed=1)
    assert [one.estimator for one in found] == ["replay", "ips", "snips", "dr"]
    again = evaluate(uniform_log, policy, estimator="all", seed=1)
    assert found == again
    assert all(20 < one.matches < 250 for one in found)


def test_a_policy_that_takes_what_the_log_never_does_is_seen(softmax_log: BanditLog) -> None:
    kept = (softmax_log.action != 1) | (np.arange(600) < 10)
    log = BanditLog(
        Catalogue(softmax_log.catalogue.items, softmax_log.catalogue.contexts[kept], "cut"),
        softmax_log.names,
        softmax_log.action[kept],
        softmax_log.click[kept],
        softmax_log.propensity[kept],
    )
    whole, cut = (evaluate(one, Watcher(), estimator="snips")[0].mean_weight for one in (softmax_log, log))
    assert cut < 0.8 < 0.9 < whole


def test_what_was_learned_in_a_run_is_forgotten_in_the_next_on_the_same_catalogue(fitted: Simulator) -> None:
    begun: list[list[bool]] = []

    class Watched(ItemUCB1):
        def start(self, fresh: Array) -> None:
            begun.append(fresh.tolist())
            super().start(fresh)

    env, policy = recommender_v0.population(2, family=fitted, num_agents=1, horizon=5), Watched()
    env.reset(seed=0)
    taciturn.envs.core.begin(env, {"agent": policy})
    assert begun.pop() == [True, True]
    for where in ([True, True], [False, True], [True, False]):
        for _ in range(3):
            before = env.observe()
            action = policy.act(before, env.action_mask("agent"))
            policy.update(before, action, env.step(action).reward, env.done)
        assert not begun
        env.reset(where=np.array(where))
        policy.act(env.observe(), env.action_mask("agent"))
        assert begun.pop() == where


def test_a_log_alone_cannot_be_played(softmax_log: BanditLog) -> None:
    catalogue = softmax_log.catalogue
    with pytest.raises(ValueError, match=r"family must have mean rewards to be played, and .* is only a log"):
        taciturn.simulate(recommender_v0.population(family=catalogue, horizon=3), "Random", seed=0)


def test_what_cannot_be_estimated_is_refused(uniform_log: BanditLog, softmax_log: BanditLog) -> None:
    class Never(Watcher):
        def act(self, obs: Array, mask: Array | None = None) -> Array:
            return np.full((1, 1), 5)

    six = BanditLog(
        Catalogue(np.random.default_rng(0).random((6, 5)), softmax_log.catalogue.contexts, "six.csv"),
        [*softmax_log.names, "never"],
        softmax_log.action,
        softmax_log.click,
        softmax_log.propensity,
    )
    with pytest.raises(ValueError, match=r"logged action in none of 300 rows of six\.csv"):
        evaluate(six, Never())
    with pytest.raises(ValueError, match="estimator must be 'ips', 'snips' or 'dr'"):
        evaluate(softmax_log, "Random", estimator="replay")
    with pytest.raises(ValueError, match="learn must be > 0"):
        evaluate(softmax_log, "Random", learn=0.0)
    with pytest.raises(ValueError, match="must not need the hidden truth"):
        evaluate(softmax_log, "OracleItem")
    with pytest.raises(ValueError, match="recommender"):
        evaluate(softmax_log, "PPCL")
    with pytest.raises(ValueError, match="policy must act with a number in"):
        evaluate(softmax_log, lambda rows: np.full(len(rows), 99))
    with pytest.raises(ValueError, match=r"lowest_propensity must be .* <= 0\.0"):
        evaluate(softmax_log, "Random", lowest_propensity=0.5)
    with pytest.raises(ValueError, match="draws must"):
        evaluate(softmax_log, "Random", draws=0)


def test_a_lower_propensity_than_any_that_was_seen_widens_intervals(softmax_log: BanditLog) -> None:
    one, other = (evaluate(softmax_log, Watcher(), estimator="ips", lowest_propensity=p)[0] for p in (None, 1e-3))
    assert other.value == one.value
    assert other.high > one.high


HEAD = "timestamp,item_id,position,click,propensity_score,context_0,user_feature_0\n"
LOG = HEAD + "1,a,1,0,0.5,0.25,u\n2,b,2,1,0.25,0.75,v\n3,a,1,0,0.5,0.5,u\n"


def test_a_small_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG, encoding="utf-8")
    log = read_bandit(tmp_path / "log.csv", context=["context_0"])
    assert (log.names, log.action.tolist(), log.click.tolist()) == (["a", "b"], [0, 1, 0], [False, True, False])
    assert (log.propensity.tolist(), log.positions, log.uniform) == ([0.5, 0.25, 0.5], {"1": 2, "2": 1}, False)
    assert log.catalogue.contexts.tolist() == [[0.0], [1.0], [0.5]]
    assert "3 rows, 2 actions" in repr(log)
    first = read_bandit(tmp_path / "log.csv", position="1")
    assert (len(first), first.positions, first.uniform) == (2, {"1": 2}, True)
    # Text is as many columns as it has different ones, and then there are more than two.
    both = read_bandit(tmp_path / "log.csv", context_dim=2)
    assert both.catalogue.contexts.shape == (3, 2)
    assert len(np.unique(both.catalogue.contexts, axis=0)) == 3
    (tmp_path / "plain.csv").write_text("action,reward,pscore\nx,True,0.5\ny,false,0.5\n", encoding="utf-8")
    plain = read_bandit(tmp_path / "plain.csv")
    assert plain.uniform
    assert plain.click.tolist() == [True, False]
    assert plain.catalogue.contexts.tolist() == [[0.5], [0.5]]
    assert len(np.unique(plain.catalogue.items, axis=0)) == 2


def test_rows_are_sorted_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        HEAD + "2024-01-02 00:00:00+00:00,a,1,0,0.5,1,u\n2024-01-01 00:00:00+00:00,b,1,1,0.5,0,u\n", encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"log\.csv, line 3: timestamp must be at least that of the row before"):
        read_bandit(tmp_path / "log.csv")
    log = read_bandit(tmp_path / "log.csv", sort=True)
    assert [log.names[a] for a in log.action] == ["b", "a"]
    assert log.click.tolist() == [True, False]
    assert log.catalogue.contexts[:, 0].tolist() == [0.0, 1.0]


def test_item_features_are_read(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG, encoding="utf-8")
    (tmp_path / "items.csv").write_text("item_id,price\nb,3\nc,9\na,1\n", encoding="utf-8")
    log = read_bandit(tmp_path / "log.csv", items=tmp_path / "items.csv")
    assert log.catalogue.items.tolist() == [[0.0, 0.5, 0.5, 0.5, 0.5], [1.0, 0.5, 0.5, 0.5, 0.5]]
    (tmp_path / "items.csv").write_text("item_id,price\nb,3\na,1\nb,4\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"items\.csv, line 4: item_id must be in one row only, not 'b'"):
        read_bandit(tmp_path / "log.csv", items=tmp_path / "items.csv")
    (tmp_path / "items.csv").write_text("item_id,price\nb,1e39\na,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"items\.csv, line 2: price must be a number from .* not '1e39'"):
        read_bandit(tmp_path / "log.csv", items=tmp_path / "items.csv")
    (tmp_path / "items.csv").write_text("item_id,price\nb,3\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"items\.csv: there must be a row for every action of the log, .* 'a'"):
        read_bandit(tmp_path / "log.csv", items=tmp_path / "items.csv")
    (tmp_path / "items.csv").write_text("item_id,kind\nb,new\na, \n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"items\.csv, line 3: kind must be given, not ' '"):
        read_bandit(tmp_path / "log.csv", items=tmp_path / "items.csv")


def test_spaces_around_a_text_make_no_other_context(tmp_path: Path) -> None:
    found = []
    for text in (LOG, LOG.replace(",u\n", ", u \n", 1)):
        (tmp_path / "log.csv").write_text(text, encoding="utf-8")
        found.append(read_bandit(tmp_path / "log.csv", context=["user_feature_0"]).catalogue.contexts)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["empty"]),
        (HEAD, ["empty"]),
        (LOG + "4,a,1,0,0,0.5,u\n", ["line 5", "propensity", ">= 1e-12 and <= 1", "'0'"]),
        (LOG + "4,a,1,0,-0.1,0.5,u\n", ["line 5", "propensity", "'-0.1'"]),
        (LOG + "4,a,1,0,1e-308,0.5,u\n", ["line 5", "propensity", "'1e-308'"]),
        (LOG + "4,a,1,0,1.1,0.5,u\n", ["line 5", "propensity", "'1.1'"]),
        (LOG + "4,a,1,0,nan,0.5,u\n", ["line 5", "propensity", "'nan'"]),
        (LOG + "4,a,1,2,0.5,0.5,u\n", ["line 5", "click", "0 or 1", "'2'"]),
        (LOG + "4,a,1,0,0.5,inf,u\n", ["line 5", "context_0", "'inf'"]),
        (LOG + "4,a,1,0,0.5,x,u\n", ["line 5", "context_0", "'x'"]),
        *((LOG + f"4,{name},1,0,0.5,0.5,u\n", ["line 5", "action must be given"]) for name in ("", "NA", " nan ")),
        (LOG + "4,a,1,0,0.5,1e39,u\n", ["line 5", "context_0", "'1e39'"]),
        (LOG + "4,a,1,0,0.5,4_9,u\n", ["line 5", "context_0", "'4_9'"]),
        (LOG + "4,a,1,1_0,0.5,4,u\n", ["line 5", "click", "'1_0'"]),
        (LOG.replace("position", "reward"), ["line 1", "must be the click", "'reward' and 'click'", "--column click="]),
        *((LOG + f"4,a,1,0,0.5,0.5,{text}\n", ["line 5", "user_feature_0", "given"]) for text in ("", " ")),
        (LOG + "4,a,1,0,0.5\n", ["line 5", "7 cells", "are 5"]),
        (LOG + "2,a,1,0,0.5,0.5,u\n", ["line 5", "timestamp", "'2'", "the row before"]),
        (LOG.replace("click", "clock"), ["line 1", "'click'"]),
        (LOG.replace("context_0", "weather"), ["line 1", "'weather' is unknown"]),
        (HEAD + "1,a,1,0,1,0.5,u\n", ["at least 2 actions", "'a'"]),
    ],
)
def test_what_is_wrong_with_a_log_is_told(tmp_path: Path, text: str, named: list[str]) -> None:
    (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the parts of the message are checked below
        read_bandit(tmp_path / "bad.csv")
    for part in ["bad.csv", *named]:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_wishes_about_a_log_are_told(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG, encoding="utf-8")
    for wish, said in [
        ({"context": ["age"]}, "'age'"),
        ({"position": "7"}, "position must be one of 1, 2"),
        ({"context_dim": 10}, "context_dim"),
    ]:
        with pytest.raises(ValueError, match=said):
            read_bandit(tmp_path / "log.csv", **wish)  # type: ignore[arg-type]


def test_contexts_of_many_columns_are_principal_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the singular value decomposition of the standardised columns."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 4))
    log = read_bandit(
        write_log(tmp_path / "log.csv", np.arange(50) % 3, np.zeros(50), np.full(50, 0.5), x), context_dim=2
    )
    left, size, _ = np.linalg.svd((x - x.mean(0)) / x.std(0), full_matrices=False)
    score = left[:, :2] * size[:2]
    unit = (score - score.min(0)) / np.ptp(score, axis=0)
    for ours, theirs in zip(log.catalogue.contexts.T, unit.T, strict=True):
        assert min(np.abs(ours - theirs).max(), np.abs(ours - (1 - theirs)).max()) < 1e-5


def test_last_digits_do_not_turn_components_round() -> None:
    """A column of two texts becomes two opposite columns, whose entries are equally large."""
    column = np.array([0.5, -0.1, 0.5, -0.5])
    for change in (0.0, 1e-12, -1e-12):
        nearly = column + np.array([0, 0, 0, change])
        found = with_signs(np.stack([nearly, -nearly], 1))
        np.testing.assert_allclose(found, np.stack([column, column], 1), atol=1e-9)
