"""What others must know of `gossip_bandit_v0`."""

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

BITS = "BitwiseRandomizedResponse:{}"
OPTIMISM = {"optimism": Span(1.0, 4.0), "fading": Span(0.0, 1.0)}
LISTENING = OPTIMISM | {
    "moment": Span(1.0, 12.0, log=True),
    "temper": Span(0.03, 1.0, log=True),
    "doubt": Span(0.0, 0.3),
    "memory": Span(0.0, 1.0),
}
"""Where the settings of agents with memory are drawn, in the social bandit too."""
SIX = {"num_agents": 6, "qualities": [0.8, 0.2], "horizon": 5.0}
SPEAKING = {"without_preference": "zeros"}  # silence would tell what noise hides

WORLDS = (
    Descriptor(
        name="gossip_bandit_v0",
        module="taciturn.envs.gossip_bandit.world",
        small={"num_agents": 6, "horizon": 20.0},
        size="num_agents",
        others="PPCL",
        mechanisms={"preference": "BitwiseRandomizedResponse:1"},
        example=Example(
            "PPCL",
            'num_envs=20, num_agents=400, qualities="chen2021"',
            ("PPCL(epsilon=3.0)", "until=range(1, 7)", 'record=["popularity"]', 'privacy="paper"'),
        ),
        contest=Contest(
            world={"num_agents": 20, "horizon": 20.0},
            measure="popularity_regret",
            bounds=(0.0, 1.0),
            replicas=2,
            steps=40_000,
            classic=(
                ("Voter", {}),
                ("FollowMajority", {}),
                ("CopyOnReward", {}),
                ("WinStay", {}),
                ("IsolatedUCB", {}),
                ("IsolatedThompson", {}),
            ),
            paper=(("PPCL", {}), ("PPCL", TUNED)),
            designed=(("HoldTheBest", TUNED), ("Listener", TUNED)),
            tuned=(("SharedPPO", {}),),
            alone=Mark("HoldTheBest", TUNED),
            together=Mark("HoldTheBestTogether"),
            oracle=("OneAnswerOracle", "Listener"),
            search={
                "PPCL": {"alpha": Span(0.3, 0.99)},
                "HoldTheBest": OPTIMISM,
                "Listener": LISTENING,
            },
            hears=("preference",),
            variants={
                "crowd": Variant("100 agents instead of 20", {"num_agents": 100}, size=True, runs=20),
                "close": Variant(
                    "one option has quality 0.6, the others 0.4", {"qualities": (0.4,) * 3 + (0.6,), "shuffle": True}
                ),
                "lost": lost("preference", "replies"),
                "liars": lying("preference", "name the next option instead of their own"),
                "brief": brief("preference", 40),
                "strangers": among("Voter"),
            },
            totals=Totals(
                ("preference",),
                BITS,
                SPEAKING,
                400,
                ("SharedPPO", {}),
                "the preference in one message",
                without=("HoldTheBest", "IsolatedUCB", "IsolatedThompson"),
                change=(0, 1),
            ),
        ),
        leaks=(
            Leak({"PPCL": {}}, BITS, SIX),
            Leak({"CopyOnReward": {}}, BITS, SIX),
            Leak({"PPCL": {}}, "Memoized:" + BITS, SIX),
            Leak({"PPCL": {}}, BITS, SIX, levels=(0.25,), budget={}),
            Leak({"Listener": {}}, "Scheduled:12:" + BITS, SIX | SPEAKING),
            Leak({"PPCL": {}}, BITS, {**SIX, "horizon": 8.0}, limit=8, attack="messages"),
        ),
    ),
)
