"""What others must know of `elicitation_v0`."""

import math

from taciturn.envs.core.descriptor import (
    PLAIN_PPO,
    TUNED,
    Contest,
    Descriptor,
    Example,
    Leak,
    Mark,
    Params,
    Span,
    Totals,
    Variant,
)

SIX = {"num_individuals": 6, "horizon": 3}
LARGE_PRIZES = {"max_scale": 1e4}

AIM = {"amount": Span(0.05, 30.0, log=True), "target": Span(0.01, 10.0, log=True)}


def against(what: str, params: Params, **individuals: float) -> Variant:
    """Other individuals, whom the mark `together` knows."""
    told = Mark("InformedPlatform", {"individuals": individuals}, LARGE_PRIZES)
    return Variant(what, params, others=individuals, marks={"together": told})


WORLDS = (
    Descriptor(
        name="elicitation_v0",
        module="taciturn.envs.elicitation.world",
        small={"num_individuals": 5, "horizon": 12},
        drawn_since=3,
        size="num_individuals",
        one_agent="taciturn.envs.elicitation.platform:platform_side",
        players={"individuals": "BestResponse"},
        mechanisms={"report": None},
        example=Example(
            "BestResponse, Wintall",
            "num_envs=20, num_individuals=1000",
            ('{"platform": Wintall(target=1.0), "individual": BestResponse()}', "until=50"),
        ),
        contest=Contest(
            world={"num_individuals": 50},
            measure="loss",
            steps=20_000,
            classic=(
                ("FlatRate", {"amount": 0.0}),
                ("OutputAgreement", {}),
                ("OutputAgreement", TUNED),
                ("PeerTruthSerum", {}),
                ("PeerTruthSerum", TUNED),
                ("PostedPrice", {}),
                ("PostedPrice", TUNED),
            ),
            paper=(("Wintall", {}), ("Wintall", TUNED)),
            designed=(("UnderstatedTarget", {}), ("BayesianPrice", TUNED)),
            tuned=(("SharedPPO", {}),),
            alone=Mark("FlatRate", {"amount": 0.0}),
            together=Mark("InformedPlatform", world=LARGE_PRIZES),
            search={
                "OutputAgreement": AIM,
                "PeerTruthSerum": AIM,
                "PostedPrice": {"price": Span(0.01, 4.0, log=True)},
                "Wintall": {"target": Span(0.1, 3.0, log=True)},
                "BayesianPrice": {"draws": Span(1, 300, log=True), "particles": Span(64, 2048, log=True)},
            },
            side="platform",
            others={"BestResponse": 1.0},
            for_policies={"OutputAgreement": LARGE_PRIZES, "PeerTruthSerum": LARGE_PRIZES},
            variants={
                "uneven": Variant("privacy costs differ between individuals", {"cost_spread": 0.5}),
                "mixed": against("a third always takes the largest budget", {}, BestResponse=2.0, Truthful=1.0),
                "some-generous": against(
                    "a quarter always takes the largest budget, and costs differ",
                    {"cost_spread": 0.5},
                    BestResponse=3.0,
                    Truthful=1.0,
                ),
                "few": Variant("10 individuals instead of 50", {"num_individuals": 10}),
                "wary": against(
                    "individuals answer what is best for them, whatever target is announced",
                    {"belief_concentration": math.inf},
                    FiniteBestResponse=1.0,
                ),
            },
            totals=Totals(
                ("report",),
                "",
                {},
                1,
                (PLAIN_PPO, {}),
                "all values of an individual",
                unit="user",
                without=("FlatRate", "OutputAgreement", "PeerTruthSerum"),
                change=(0, 1),
            ),
        ),
        leaks=(
            Leak({"Wintall": {}, "BestResponse": {}}, None, SIX),
            Leak({"Wintall": {}, "TargetQuality": {}}, None, SIX),
            Leak({"Wintall": {}, "TargetQuality": {}}, None, SIX, budget={}),
        ),
        times_cartpole=6,
    ),
)
