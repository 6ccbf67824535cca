"""The information that leaves the agents of a recommender: shown items, and the third party's answers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from taciturn.envs.core import Channel, ChannelConfig, Replicas
from taciturn.envs.core.hooks import S
from taciturn.envs.core.public import Passing
from taciturn.envs.recommender.sharing import CHANNELS, OWN_NAMES, STREAMS, Reader, Released, Request, ThirdParty
from taciturn.validation import Array, Bools, Floats, Ints

IMPOSSIBLE = -1e9  # the score of options that cannot be selected


class Exchange(Replicas[S]):
    """The channels of a recommender, and the third party."""

    third_party: ThirdParty
    _released: dict[str, Released]

    passes: Mapping[str, Passing] = {
        "consult": Passing(lambda request: request.asked),
        "select": Passing(lambda scores, possible, sensitivity: np.where(possible, scores, 0.0)),
    }

    def make_channels(self) -> tuple[Channel, ...]:
        fill_info: Any = {"observer": "neighbour", "unit": "event", "agents_decide": True, "given": "what was shown"}
        return (
            Channel("statistics", "stream", **fill_info),
            Channel("counts", "stream", **fill_info),
            Channel("selection", "scores", observer="public", unit="event"),
        )

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        mechanism = config.mechanism
        fitting = ("exponential",) if channel == "selection" else STREAMS
        if mechanism is not None and mechanism.kind not in ("none", *fitting):
            wanted = "Exponential" if channel == "selection" else "TreeAggregation or Blocks"
            raise ValueError(f"mechanism on channel {channel!r} must be {wanted}, not {mechanism!r}")
        if mechanism is not None and mechanism.kind in STREAMS:
            if mechanism.sampler != "fast":  # type: ignore[attr-defined]
                raise ValueError(
                    f"sampler must be 'fast' on channel {channel!r}, where noise follows from its address, not "
                    f"{mechanism!r}"
                )
            mechanism.block_scale(self.params.horizon, 1.0)  # type: ignore[attr-defined]
        if channel != "selection" and config.budget is not None:
            raise ValueError(
                f"budget must be None on channel {channel!r}, not {config.budget!r}: the cost of a request "
                "depends on the new records in its answer"
            )

    def expose(self, live: Bools) -> None:
        """Publish the shown items: items not selected through the channel count as exposed."""
        channel, cluster = self.channels["selection"], self.column("cluster")
        bare = np.broadcast_to((self.column("bare") & live)[:, None], cluster.shape)
        if channel.config.mechanism is None or channel.config.mechanism.kind == "none":
            channel.send(cluster[:, :, None], None if bare.all() else bare)
        else:
            channel.expose(bare.astype(np.int64))

    def answers(self, asks: Bools) -> tuple[Bools, Floats, Floats]:
        """The third party's answers to the agents in `asks` bool[B, W] for the next contexts: which agents have an
        answer [B, W], counts and means [B, W, clusters]."""
        p, network, time = self.params, self.params.network, self.column("time")
        nothing = np.zeros((*asks.shape, p.clusters))
        asks = asks & (time < p.horizon)[:, None] & (network.degrees > 0)
        if not asks.any():
            return asks, nothing, nothing
        contexts, own_counts = self.column("contexts"), self.column("own_counts")
        cell = (contexts[..., :2] >= 0.5) @ (1 << np.arange(min(p.context_dim, 2)))
        neighbours = [
            np.take_along_axis(network.neighbour_sums(own), cell[:, :, None, None], 2)[:, :, 0]
            for own in (self.column("own_sums"), own_counts)
        ]
        streams = (np.arange(p.num_agents) * p.cells + cell)[:, :, None] * p.clusters
        names = OWN_NAMES + (streams + np.arange(p.clusters)).astype(np.uint64)

        def messages(who: Bools) -> Ints:
            return network.neighbour_sums(who.astype(np.int64))

        def entered(who: Bools, reader: Reader) -> Ints:
            # Here each agent has separate streams, so only liars get false answers.
            return self._released[reader[0]].entered(who, cell, own_counts > 0, network)

        request = Request(asks, neighbours[0], neighbours[1], names, messages, network.degrees, entered)
        sums, counts, answered = self.third_party.answer(request, self.channels, time, p.horizon)
        counts = np.where(answered[:, :, None], np.maximum(counts, 0), 0)
        return answered, counts, np.where(counts > 0, np.clip(sums / np.maximum(counts, 1), 0, 1), 0)

    def consult(self, request: Request) -> tuple[Floats, Floats, Bools]:
        """Ask the third party for statistics before acting; see `ThirdParty.answer`. `info` counts agents with an
        answer as `shared`."""
        if (request.streams >= OWN_NAMES).any():
            raise ValueError(f"streams must have names below 2^63, not {request.streams.max()}")
        self._require_reset()
        if self.plain:  # the state counts messages
            answered, sent = request.asked & self.channels["statistics"].live[:, None], self.column("sent")
            sent += request.messages(answered)
            for name in CHANNELS:
                self.channels[name].times += 1
            sums, counts = np.asarray(request.sums, np.float64), np.asarray(request.counts, np.float64)
        else:
            asked = request, self.channels, self.column("time"), self.params.horizon
            sums, counts, answered = self.third_party.answer(*asked)
        consulted = self.column("consulted")
        consulted |= answered
        return sums, counts, answered

    def select(self, scores: Floats, possible: Bools, sensitivity: Array) -> Ints:
        """Select options by scores over the channel `selection`.

        Args:
            scores: float64[B, W, K], clipped to [0, sensitivity], so any scores are valid.
            possible: the options to select from, bool[B, W, K]; public.
            sensitivity: the largest change of a score by one feedback, an array that broadcasts against [B, W, 1];
            public.

        Returns:
            The options int64[B, W]; -1 where the selection was lost.
        """
        channel = self.channels["selection"]
        scores = np.where(possible, np.clip(scores, 0, sensitivity), IMPOSSIBLE)
        option, arrived = channel.send(scores, None, sensitivity)
        if option.ndim == scores.ndim:  # without noise the scores arrive unchanged
            option = option.argmax(-1)
        self.column("selected")[...] |= channel.live
        return np.where(arrived, option, -1)
