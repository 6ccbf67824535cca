"""What others must know of `social_bandit_v0`."""

import itertools

from taciturn.envs.core.descriptor import (
    TUNED,
    Contest,
    Descriptor,
    Example,
    Leak,
    Mark,
    Span,
    Totals,
    Variant,
    among,
    brief,
    lost,
    lying,
)
from taciturn.envs.gossip_bandit.descriptor import LISTENING, OPTIMISM

BETA = {"beta": Span(0.51, 1.0)}
BITS = "BitwiseRandomizedResponse:{}"
SIX = {"num_agents": 6, "qualities": [0.8, 0.2], "copies": 8, "dissemination": "stationary", "horizon": 10}
SPEAKING = {"without_preference": "zeros"}  # silence would tell what noise hides
LEARNING = {"PrivateSocialLearning": {"beta": 0.95}}

WORLDS = (
    Descriptor(
        name="social_bandit_v0",
        module="taciturn.envs.social_bandit.world",
        small={"num_agents": 6, "copies": 3, "walk_length": 4, "horizon": 20},
        drawn_since=3,
        size="num_agents",
        others="PrivateSocialLearning",
        mechanisms={"preference": "BitwiseRandomizedResponse:1"},
        example=Example(
            "PrivateSocialLearning",
            'num_envs=20, num_agents=40, qualities="tao2023"',
            ("PrivateSocialLearning()", "until=60", 'privacy={"preference": UnaryEncoding(5.0)}'),
            "UnaryEncoding",
        ),
        contest=Contest(
            world={"num_agents": 20, "horizon": 50, "signals": "per_agent"},
            measure="pseudo_regret",
            bounds=(0.0, 1.0),
            steps=60_000,
            classic=(
                ("Voter", {}),
                ("FollowMajority", {}),
                ("CopyOnReward", {}),
                ("WinStay", {}),
                ("IsolatedUCB", {}),
                ("IsolatedThompson", {}),
            ),
            paper=(
                ("PrivateSocialLearning", {}),
                ("PrivateSocialLearning", TUNED),
                ("Replicator", {}),
                ("Replicator", TUNED),
            ),
            designed=(("HoldTheBest", TUNED), ("Listener", TUNED)),
            tuned=(("SharedPPO", {}),),
            alone=Mark("HoldTheBest", TUNED),
            together=Mark("HoldTheBestTogether", {"optimism": 2.5, "fading": 1.0}),
            oracle=("OneAnswerOracle", "Listener"),
            search={
                "PrivateSocialLearning": BETA | {"mu": Span(1e-4, 0.3, log=True), "pool": Span(1, 10, log=True)},
                "Replicator": BETA,
                "HoldTheBest": OPTIMISM,
                "Listener": LISTENING,
            },
            controls=("shared",),
            hears=("preference",),
            variants={
                "crowd": Variant("100 agents instead of 20", {"num_agents": 100}, size=True, runs=20),
                "shared": Variant(
                    "all agents see the same signals, so others add little",
                    {"signals": "shared"},
                    marks={"together": Mark("HoldTheBestTogether")},
                ),
                "close": Variant(
                    "one option has quality 0.6, the others 0.4", {"qualities": (0.4,) * 4 + (0.6,), "shuffle": True}
                ),
                "lost": lost("preference", "copies"),
                "liars": lying("preference", "name the next option instead of their own"),
                "brief": brief("preference", 5),
                "strangers": among("Voter"),
            },
            totals=Totals(
                ("preference",),
                BITS,
                SPEAKING,
                50,
                ("SharedPPO", {}),
                "the preference in one message",
                without=("HoldTheBest", "IsolatedUCB", "IsolatedThompson"),
                change=(0, 1),
            ),
        ),
        leaks=(
            *(
                Leak({"PrivateSocialLearning": {"beta": beta}}, BITS, {**SIX, "without_preference": silence})
                for beta, silence in itertools.product((0.65, 0.95), ("silent", "zeros"))
            ),
            Leak({"Listener": {}}, "Scheduled:4:" + BITS, SIX | SPEAKING),
            Leak(LEARNING, BITS, SIX | SPEAKING, levels=(0.5,), budget={}),
            Leak(LEARNING, BITS, SIX | SPEAKING, attack="messages"),
        ),
    ),
)
