"""The trusted third party of a recommender: it merges the statistics that agents ask for, adds noise, and charges
epsilon."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from taciturn.channels.channel import Channel
from taciturn.graph import Graph
from taciturn.privacy.stateful import BlockNoise, Blocks, TreeAggregation, derived_key
from taciturn.validation import Array, Bools, Floats, Ints

CHANNELS = ("statistics", "counts")
STREAMS = ("tree", "blocks")  # the kinds of mechanism that release running sums

Entered = Iterable[tuple[Array, Array, Array]]
"""The new records in an answer: their replicas, the agents that made them, and their rounds."""
Reader = tuple[str, int]
"""The channel and the reader of answers: `HONEST`, all agents that get true answers, or the number of an agent that
gets lies, under separate noise."""
HONEST = -1
OWN_NAMES = np.uint64(1 << 63)  # offset of the environment's stream names; names given by policies are smaller
ROUNDING = 1e-9


@dataclass(frozen=True)
class Request:
    """A request of agents to the third party: sums and numbers of rewards in K streams each.

    A stream is requested repeatedly: the rewards of a set of agents in one cell of contexts and one cluster of items.

    Attributes:
        asked: the agents that ask, bool[B, N].
        sums, counts: the sum and the number of rewards in each stream, [B, N, K].
        streams: the name of each stream, uint64[B, N, K]; equal names mean the same stream.
        messages: maps the asking agents, bool[B, N], to the number of messages that each agent sends for their answers,
            int64[B, N].
        merged: the number of agents with records in each agent's streams, int64[N].
        entered: maps the asking agents, bool[B, N], and a `Reader` to the records in their streams that are new to that
            reader; called only if answers are charged. The third party checks that these are all: see
            `Releases.charged`.

    A record is a number in [-1, 1], counts as 1, and enters at most one stream of a request. A stream only grows.
    """

    asked: Bools
    sums: Array
    counts: Array
    streams: Array
    messages: Callable[[Bools], Ints]
    merged: Ints
    entered: Callable[[Bools, Reader], Entered | Ints]


def is_plain(channels: Mapping[str, Channel]) -> bool:
    """Whether answers are exact and always arrive, and nothing is charged."""
    return not any(c.config.mechanism or c.config.faults or c.accountant for c in map(channels.__getitem__, CHANNELS))


class ThirdParty:
    """Answers requests over the channels `statistics` (sums) and `counts` of a population, and charges the information
    in the answers.

    The sums of a stream are released by the binary mechanism (`TreeAggregation`). Its noise is a function of its
    address, so nothing is stored and a repeated request gets the same answer. If counts are released without noise, the
    values of a stream are its rewards in the order of arrival; if the channel `counts` has a mechanism, they are the
    sums of rounds. With `Blocks`, a block of a stream holds the records since the last request for it: it is released
    once, with noise of scale 1/epsilon. The times of requests must then be public, as always for a finite epsilon.

    A record costs epsilon for each stream in which it was released. On each of the two channels, an agent is charged
    whenever its costliest record enters one more stream. The requesting policy names the records that enter; streams
    that grow by more records than named are charged to every agent. Byzantine agents get false answers under separate
    noise, since an honest agent that asked for the same stream could otherwise cancel the noise.
    """

    def __init__(self, num_envs: int, num_agents: int) -> None:
        self.num_agents = num_agents
        self.accounts = {name: Releases(num_envs, num_agents) for name in CHANNELS}

    def start(self, fresh: Bools, channels: Mapping[str, Channel]) -> None:
        """Begin new runs in the replicas `fresh` bool[B]."""
        for name, account in self.accounts.items():
            rng = channels[name].rng
            assert rng is not None
            account.key[fresh] = rng.integers(0, 2**63, int(fresh.sum()), np.uint64)
            account.streams[fresh], account.most[fresh] = 0, 0
            account.blocks = {at: kept for at, kept in account.blocks.items() if not fresh[at[0]]}
            account.grown = {at: kept for at, kept in account.grown.items() if not fresh[at[0]]}

    def answer(
        self, request: Request, channels: Mapping[str, Channel], time: Ints, horizon: int
    ) -> tuple[Floats, Floats, Bools]:
        """(Sums float64[B, N, K], counts float64[B, N, K], agents that got both bool[B, N]) for requests made at `time`
        int64[B]."""
        r = request
        statistics, counting = (channels[name] for name in CHANNELS)
        live = r.asked & statistics.live[:, None]
        sums, counts = np.asarray(r.sums, np.float64), np.asarray(r.counts, np.float64)
        if is_plain(channels):
            messages = r.messages(live)
            for channel in (statistics, counting):
                channel.record(each=messages)
            return sums, counts, live
        rounds = np.broadcast_to(time[:, None, None], r.counts.shape)
        by_round = np.full(self.num_agents, horizon)
        noisy_counts = counting.config.mechanism is not None and counting.config.mechanism.kind in STREAMS
        lengths = rounds if noisy_counts else r.counts
        longest = by_round if noisy_counts else np.maximum(r.merged, 1) * horizon
        if statistics.config.mechanism is not None and statistics.config.mechanism.kind == "blocks":
            lengths = rounds
        sums, answered = statistics.answer(sums, r.asked, self._reply(r, statistics, lengths, longest), r.streams)
        counts, counted = counting.answer(counts, r.asked, self._reply(r, counting, rounds, by_round), r.streams)
        return sums, counts, answered & counted

    def _reply(
        self, request: Request, channel: Channel, lengths: Array, longest: Array
    ) -> Callable[[Array, Bools, Bools | None], tuple[Array, Array, Array]]:
        """The function that `Channel.answer` calls, for streams of `lengths` [B, N, K] values so far and at most
        `longest` int64[N]."""
        mechanism, account = channel.config.mechanism, self.accounts[channel.name]

        def reply(x: Array, who: Bools, liars: Bools | None) -> tuple[Array, Array, Array]:
            messages, y = request.messages(who), x * who[:, :, None]
            if mechanism is None:
                return y, messages, messages
            lying = np.zeros_like(who) if liars is None else liars
            if (lengths > np.broadcast_to(longest[:, None], lengths.shape))[who].any():
                raise ValueError(
                    f"merged must contain all agents with records in the streams, not {request.merged.tolist()}, which "
                    f"is too few for {int(lengths[who].max())} records"
                )
            if isinstance(mechanism, TreeAggregation | Blocks):
                b, n = np.nonzero(who)
                key = account.key[b]
                key = np.where(lying[b, n], derived_key(key, n.astype(np.uint64)), key)
                if isinstance(mechanism, TreeAggregation):
                    noise = mechanism.noise_at(key[:, None], request.streams[b, n], lengths[b, n])
                else:
                    reader = np.where(lying[b, n], n, HONEST)
                    noise = account.block_noise(b, reader, key, request.streams[b, n], lengths[b, n, 0])
                y[b, n] += noise * mechanism.block_scale(longest, 1.0)[n, None]
            charged = account.charged(request, who & ~lying, (channel.name, HONEST))
            for liar in np.flatnonzero((who & lying).any(0)):
                alone = np.zeros_like(who)
                alone[:, liar] = (who & lying)[:, liar]
                charged = charged + account.charged(request, alone, (channel.name, int(liar)))
            return y, messages, charged

        return reply


class Releases:
    """Number of releases of each record on one channel.

    Attributes:
        key: uint64[B], key of the noise of its streams.
        streams: int32[B, N, rounds], the number of streams in which each record was released.
        most: int64[B, N], the largest of these numbers for each agent.
        blocks: the noise of `Blocks`, by replica and reader.
        grown: the last release of each stream, by replica and reader: names, in order, and counts and sums.
    """

    def __init__(self, num_envs: int, num_agents: int) -> None:
        self.key = np.zeros(num_envs, np.uint64)
        self.streams = np.zeros((num_envs, num_agents, 0), np.int32)
        self.most = np.zeros((num_envs, num_agents), np.int64)
        self.blocks: dict[tuple[int, int], BlockNoise] = {}
        self.grown: dict[tuple[int, int], tuple[Array, Array]] = {}

    def block_noise(self, replica: Ints, reader: Ints, key: Array, streams: Array, time: Array) -> Floats:
        """The noise of n answers about `streams` uint64[n, K], to the readers int64[n] in the replicas int64[n], at the
        times int64[n], under the keys uint64[n]; float64[n, K], in units of `Blocks.block_scale`."""
        noise = np.zeros(streams.shape)
        for b, whose in sorted(set(zip(replica.tolist(), reader.tolist(), strict=True))):
            at = np.flatnonzero((replica == b) & (reader == whose))
            kept = self.blocks.setdefault((b, whose), BlockNoise())
            noise[at] = kept.released(key[at[0]], streams[at], int(time[at[0]]))
        return noise

    def charged(self, request: Request, who: Bools, reader: Reader) -> Ints:
        """The number of streams that the costliest record of each agent newly enters, int64[B, N], when `who` get
        answers.

        Where streams grow by more records than the request names, any agent's records may have entered: all agents are
        charged for each stream that grew.
        """
        entered = request.entered(who, reader)
        if isinstance(entered, np.ndarray) and (request.streams >= OWN_NAMES).all():  # counted by us
            return entered
        more, named = self.charges(() if isinstance(entered, np.ndarray) else entered)
        for b in np.flatnonzero(who.any(1)).tolist():
            names, first = np.unique(request.streams[b][who[b]], return_index=True)
            now = np.stack([x[b][who[b]].ravel()[first] for x in (request.counts, request.sums)]).astype(np.float64)
            known, before = self.grown.get((b, reader[1]), (names[:0], now[:, :0]))
            every = np.union1d(known, names)
            last = np.zeros((2, every.size))
            last[:, np.searchsorted(every, known)] = before
            place = np.searchsorted(every, names)
            counts, sums = now - last[:, place]
            if (np.abs(sums) > counts * (1 + ROUNDING) + ROUNDING).any():
                raise ValueError(
                    "sums and counts of a stream must be its last answer plus new records in [-1, 1], not "
                    f"{np.abs(sums).max():g} from {counts[np.abs(sums).argmax()]:g} records"
                )
            last[:, place] = now
            self.grown[b, reader[1]] = every, last
            if named[b] < counts.sum():
                more[b] += np.count_nonzero(counts)
        return more

    def charges(self, entered: Entered) -> tuple[Ints, Ints]:
        """The number of streams that the costliest record of each agent newly enters, int64[B, N], and the number of
        new records, int64[B]."""
        most, named = self.most.copy(), np.zeros(len(self.key), np.int64)
        for replica, agent, when in entered:
            if when.size:
                self._make_room(int(when.max()) + 1)
                np.add.at(self.streams, (replica, agent, when), 1)
                np.maximum.at(most, (replica, agent), self.streams[replica, agent, when])
                np.add.at(named, replica, 1)
        more, self.most = most - self.most, most
        return more, named

    def _make_room(self, rounds: int) -> None:
        if rounds > self.streams.shape[2]:
            more = max(rounds, 2 * self.streams.shape[2], 256) - self.streams.shape[2]
            self.streams = np.concatenate([self.streams, np.zeros((*self.most.shape, more), np.int32)], 2)


class Released:
    """The number of streams (asking agent, cell, cluster) in which each agent's feedbacks of a cell and a cluster have
    been released.

    Counts only grow, so no table of pairs of agents is needed: it is enough to store the first answer after an agent
    had feedbacks of a cell and a cluster, and every agent's last answer for that cell.
    """

    def __init__(self, num_envs: int, num_agents: int, cells: int, clusters: int) -> None:
        self.answers = 0  # number of answers so far
        self.since = np.zeros((num_envs, num_agents, cells, clusters), np.int32)  # 0: no feedbacks yet
        self.last = np.zeros((num_envs, num_agents, cells), np.int32)
        self.streams = np.zeros((num_envs, num_agents, cells, clusters), np.int32)

    def start(self, fresh: Bools) -> None:
        """Begin new runs in the replicas `fresh` bool[B]."""
        for table in (self.since, self.last, self.streams):
            table[fresh] = 0

    def entered(self, who: Bools, cell: Ints, has: Bools, network: Graph) -> Ints:
        """The number of streams that each agent's costliest feedback newly enters, int64[B, N], when `who` bool[B, N]
        get an answer.

        They ask for the cells `cell` int64[B, N]; the agents have feedbacks where `has`, bool[B, N, cells, clusters].
        """
        before = self.streams.max((-2, -1))
        self.answers += 1
        self.since[has & (self.since == 0)] = self.answers
        pair_asker = np.repeat(np.arange(network.num_nodes), network.degrees)
        replica, pair = np.nonzero(who[:, pair_asker])
        asker, teller = pair_asker[pair], network.indices[pair]
        here = cell[replica, asker]
        new, cluster = np.nonzero(self.since[replica, teller, here] > self.last[replica, asker, here][:, None])
        np.add.at(self.streams, (replica[new], teller[new], here[new], cluster), 1)
        replica, asker = np.nonzero(who)
        self.last[replica, asker, cell[replica, asker]] = self.answers
        return np.asarray(self.streams.max((-2, -1)) - before, np.int64)
