"""What others must know of `elicitation_v0`."""

from taciturn.envs.core.descriptor import PLAIN_PPO, Contest, Descriptor, Example, Leak, Totals, Variant

SIX = {"num_individuals": 6, "horizon": 3}
LARGE_PRIZES = {"max_scale": 1e4}

WORLDS = (
    Descriptor(
        name="elicitation_v0",
        module="taciturn.envs.elicitation.world",
        small={"num_individuals": 5, "horizon": 12},
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
            classic=(("FlatRate", {}), ("OutputAgreement", {}), ("PeerTruthSerum", {}), ("PostedPrice", {})),
            paper=(("Wintall", {}),),
            tuned=(("SharedPPO", {}),),
            side="platform",
            others={"BestResponse": 1.0},
            for_policies={"OutputAgreement": LARGE_PRIZES, "PeerTruthSerum": LARGE_PRIZES},
            variants={
                "uneven": Variant("privacy costs differ between individuals", {"cost_spread": 0.5}),
                "generous": Variant(
                    "individuals take the largest budget that they may, whatever is paid", others={"Truthful": 1.0}
                ),
                "mixed": Variant(
                    "a third always takes the largest budget", others={"BestResponse": 2.0, "Truthful": 1.0}
                ),
            },
            totals=Totals(("report",), "", {}, 1, (PLAIN_PPO, {}), unit="user", change=(0, 1)),
        ),
        leaks=(
            Leak({"Wintall": {}, "BestResponse": {}}, None, SIX),
            Leak({"Wintall": {}, "TargetQuality": {}}, None, SIX),
            Leak({"Wintall": {}, "TargetQuality": {}}, None, SIX, budget={}),
        ),
        times_cartpole=20,
        by_hand="taciturn.envs.elicitation.by_hand:Elicitation",
        by_hand_size={"num_agents": 9, "horizon": 25},
    ),
)
