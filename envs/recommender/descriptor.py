"""What others must know of `recommender_v0`."""

from taciturn.envs.core.descriptor import Contest, Descriptor, Example, Leak, Totals, Variant

TREE = "TreeAggregation:{}"

WORLDS = (
    Descriptor(
        name="recommender_v0",
        module="taciturn.envs.recommender.world",
        small={"num_agents": 3, "num_items": 20, "repository": 10, "growth": [(5, 0.4)], "horizon": 20},
        size="num_agents",
        others="TPriDO",
        mechanisms={"statistics": "TreeAggregation:1"},
        example=Example(
            "TPriDO",
            "num_envs=4, num_agents=4, num_items=400",
            ("TPriDO(epsilon=2.0)", "until=1_000", 'privacy="paper"'),
        ),
        contest=Contest(
            world={"num_agents": 4, "num_items": 400, "repository": 200, "horizon": 500},
            measure="regret",
            bounds=(0.0, 1.0),
            steps=30_000,
            classic=(("ItemUCB1", {}), ("LinUCB", {}), ("HOO", {})),
            paper=(("TPriDO", {}), ("DTPriDO", {}), ("TPriDO", {"threshold": 2.0})),
            tuned=(("SharedPPO", {}), ("NeuralBandit", {})),
            for_learners={"actions": "cluster"},
            as_designed=("NeuralBandit",),
            quick={"horizon": 100},
            variants={
                "bumps": Variant("mean rewards have several bumps instead of one peak", {"family": "bumps"}),
                "linear": Variant("mean rewards are linear in the context", {"family": "linear"}),
            },
            totals=Totals(
                ("statistics", "counts"),
                TREE,
                {},
                25,
                None,
                without=("LinUCB",),
                paper=(("TPriDO", {"threshold": 2.0}), ("DTPriDO", {"threshold": 2.0}), ("TPriDO", {"threshold": 0.0})),
            ),
        ),
        leaks=(
            Leak(
                {"TPriDO": {"threshold": 2.0}},
                TREE,
                {"num_agents": 4, "num_items": 40, "repository": 20, "horizon": 20},
            ),
        ),
        by_hand="taciturn.envs.recommender.by_hand:Recommender",
        by_hand_size={"num_agents": 5, "horizon": 40, "num_items": 60, "repository": 30},
    ),
)
