"""What others must know of `federated_bandit_v0` and `arm_elimination_v0`."""

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
from taciturn.envs.core.faults import Stragglers

LAPLACE = "Laplace:{}"
LIARS = lying("means", "send 1 - x instead of x")
ROUNDS = {
    "epsilon": Span(0.1, 100.0, log=True),
    "participation": Span(0.2, 1.0),
    "rounds": Span(1, 8),
    "gap": Span(0.01, 0.5, log=True),
}
INDEX = {"a": Span(0.2, 1.5, log=True), "c": Span(0.05, 2.0, log=True)}
FOUR = {"num_agents": 4, "num_arms": 3, "horizon": 300}


def one_good_arm(num_arms: int) -> Variant:
    qualities = (0.3,) * (num_arms - 1) + (0.7,)
    return Variant("one arm has quality 0.7, the others 0.3", {"qualities": qualities, "shuffle": True})


WORLDS = (
    Descriptor(
        name="federated_bandit_v0",
        module="taciturn.envs.federated_bandit.world",
        small={"num_agents": 3, "num_arms": 4, "horizon": 40},
        size="num_agents",
        others="UCB1",
        mechanisms={"means": "Laplace:1"},
        example=Example(
            "CDPMAB",
            "num_envs=20, num_agents=20, num_arms=30",
            ("CDPMAB(epsilon=1.0)", "until=3_000", 'privacy="paper"'),
        ),
        contest=Contest(
            world={"num_agents": 20, "num_arms": 5, "horizon": 1000},
            measure="regret_per_agent",
            replicas=2,
            steps=60_000,
            classic=tuple((name, {}) for name in ("UCB1", "KLUCB", "ThompsonSampling", "MOSS", "Fed2UCB")),
            paper=(("CDPMAB", {}), ("CDPMAB", TUNED), ("SingleAgent", {})),
            designed=(
                ("HorizonKLUCB", TUNED),
                ("PublicPlan", TUNED),
                ("DividedPlan", TUNED),
                ("Synchronised", {}),
                ("Synchronised", {"index": "kl-ucb", "growth": 2.0}),
            ),
            tuned=(("LearnedPulls", {}),),
            alone=Mark("HorizonKLUCB", TUNED),
            together=Mark("PooledKLUCB"),
            search={
                "CDPMAB": ROUNDS,
                "HorizonKLUCB": INDEX,
                "PublicPlan": {
                    "first": Span(1, 8, log=True),
                    "growth": Span(1.2, 4.0, log=True),
                    "chunk": Span(1, 4, log=True),
                    "until": Span(0.3, 1.0),
                },
                "DividedPlan": {
                    "first": Span(1, 8, log=True),
                    "growth": Span(1.1, 3.0, log=True),
                    "until": Span(0.3, 1.0),
                    **INDEX,
                },
            },
            hears=("means",),
            variants={
                "many-arms": Variant(
                    "20 arms instead of 5",
                    {"num_arms": 20},
                    size=True,
                    marks={"together": Mark("PooledKLUCB", {"a": 0.5, "c": 0.3})},
                ),
                "few-agents": Variant(
                    "5 agents instead of 20",
                    {"num_agents": 5},
                    marks={"together": Mark("PooledKLUCB", {"a": 0.5, "c": 0.5})},
                ),
                "one-good-arm": one_good_arm(5),
                "heterogeneous": Variant(
                    "each agent has means of its own, and regret counts their average", {"qualities": "heterogeneous"}
                ),
                "lost": lost("means"),
                "late": Variant(
                    "half of the messages are one or two rounds late", faults={"means": Stragglers((0.5, 0.3, 0.2))}
                ),
                "liars": LIARS,
                "brief": brief("means", 3),
                "strangers": among("Synchronised"),
            },
            totals=Totals(
                ("means",),
                LAPLACE,
                {},
                1,
                None,
                "one reward",
                without=("UCB1", "KLUCB", "ThompsonSampling", "MOSS", "SingleAgent", "HorizonKLUCB", "Synchronised"),
            ),
        ),
        leaks=(
            Leak({"CDPMAB": {}}, LAPLACE, FOUR),
            Leak({"DDPMAB": {}}, LAPLACE, {**FOUR, "topology": "ring"}),
            Leak({"DividedPlan": {"first": 4, "growth": 2.0}}, LAPLACE, {**FOUR, "horizon": 40}),
        ),
    ),
    Descriptor(
        name="arm_elimination_v0",
        module="taciturn.envs.federated_bandit.arm_elimination",
        small={"num_agents": 3, "num_arms": 4, "horizon": 400},
        size="num_agents",
        mechanisms={"means": "Laplace:1"},
        example=Example(
            "EliminationSchedule",
            "num_envs=20, num_arms=30",
            ("EliminationSchedule()", "until=30_000", 'privacy={"means": Laplace(1.0)}'),
            "Laplace",
        ),
        contest=Contest(
            world={"num_agents": 5, "num_arms": 10, "horizon": 10_000},
            measure="regret_per_agent",
            steps=20_000,
            classic=(),
            paper=(("EliminationSchedule", {}), ("EliminationSchedule", TUNED)),
            designed=(("GrowingSchedule", TUNED),),
            tuned=(("LearnedElimination", {}),),
            alone=Mark("HorizonKLUCB", {"a": 0.6, "c": 0.3}, plays_in="federated_bandit_v0"),
            together=Mark("PooledKLUCB", {"a": 0.8, "c": 0.1}, plays_in="federated_bandit_v0"),
            search={
                "EliminationSchedule": {"epsilon": Span(0.1, 100.0, log=True), "participation": Span(0.2, 1.0)},
                "GrowingSchedule": {
                    "first": Span(1, 30, log=True),
                    "growth": Span(1.05, 2.5, log=True),
                    "a": Span(0.3, 2.0, log=True),
                    "c": Span(0.01, 3.0, log=True),
                },
            },
            hears=("means",),
            variants={
                "crowd": Variant("20 agents instead of 5", {"num_agents": 20}, size=True, runs=10),
                "one-good-arm": one_good_arm(10),
                "lost": lost("means"),
                "liars": LIARS,
                "brief": brief("means", 1),
            },
            totals=Totals(("means",), LAPLACE, {}, 1, ("LearnedElimination", {}), "one reward"),
        ),
        leaks=(Leak({"EliminationSchedule": {}}, LAPLACE, FOUR), Leak({"GrowingSchedule": {}}, LAPLACE, FOUR)),
        times_cartpole=3.2,
    ),
)
