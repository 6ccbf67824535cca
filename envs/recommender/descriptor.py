"""What others must know of `recommender_v0`."""

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
    lost,
    lying,
)

TREE = "TreeAggregation:{}"
BOUNDS = {
    "threshold": Span(values=(0.0, 0.5, 2.0)),
    "xi": Span(0.02, 2.0, log=True),
    "psi": Span(0.05, 1.0, log=True),
    "gamma": Span(0.5, 0.95),
    "rate": Span(5.0, 100.0, log=True),
}
"""What a search of T-PriDO's and DT-PriDO's parameters draws from."""


WORLDS = (
    Descriptor(
        name="recommender_v0",
        module="taciturn.envs.recommender.world",
        small={"num_agents": 3, "num_items": 20, "repository": 10, "growth": [(5, 0.4)], "horizon": 20},
        drawn_since=3,
        size="num_agents",
        others="TPriDO",
        mechanisms={"statistics": "TreeAggregation:1"},
        example=Example(
            "TPriDO",
            "num_envs=4, num_agents=4, num_items=400",
            ("TPriDO(epsilon=2.0)", "until=1_000", 'privacy="paper"'),
        ),
        contest=Contest(
            world={"num_agents": 8, "graph": "star", "num_items": 400, "repository": 200, "horizon": 500},
            measure="regret",
            bounds=(0.0, 1.0),
            steps=30_000,
            runs=4,
            classic=(("ItemUCB1", {}), ("LinUCB", {}), ("HOO", {})),
            paper=(
                ("TPriDO", {}),
                ("DTPriDO", {}),
                ("TPriDO", {"threshold": 2.0}),
                ("TPriDO", TUNED),
                ("DTPriDO", TUNED),
            ),
            designed=(("LogisticBandit", {}), ("BlockListener", TUNED)),
            tuned=(("NeuralBandit", {}),),
            alone=Mark("LogisticBandit"),
            together=Mark("PooledLogistic"),
            search={
                "TPriDO": BOUNDS,
                "DTPriDO": BOUNDS,
                "BlockListener": {
                    "cells": Span(50, 3000, log=True),
                    "first": Span(8, 80, log=True),
                    "growth": Span(1.1, 2.5),
                    "slack": Span(0.0, 0.15),
                    "prior": Span(0.2, 5.0, log=True),
                    "share": Span(0.4, 0.85),
                },
            },
            hears=("statistics", "counts"),
            for_learners={"actions": "cluster"},
            as_designed=("NeuralBandit", "LogisticBandit", "PooledLogistic", "BlockListener"),
            quick={"horizon": 100},
            variants={
                "crowd": Variant("32 agents instead of 8", {"num_agents": 32}, size=True),
                "bumps": Variant("mean rewards have several bumps instead of one peak", {"family": "bumps"}),
                "linear": Variant(
                    "mean rewards are linear in the context",
                    {"family": "linear"},
                    marks={  # of their own, and so with priors from this law
                        "alone": Mark("LogisticBandit", {"explore": 0.1}),
                        "together": Mark("PooledLogistic", {"degree": 2}),
                    },
                ),
                "ring": Variant("agents hear two neighbours each", {"graph": "ring"}),
                "lost": lost("statistics", "sums of feedbacks"),
                "liars": lying("statistics", "report 1 - x instead of x"),
                "strangers": among("DTPriDO"),
            },
            totals=Totals(
                ("statistics", "counts"),
                TREE,
                {},
                25,
                None,
                "one feedback's value, given what was shown",
                left_out=("selection",),
                without=("ItemUCB1", "LinUCB", "HOO", "LogisticBandit"),
                # Others ask when they have learned little, so that no total is known in advance.
                paper=(("TPriDO", {"threshold": 2.0}), ("DTPriDO", {"threshold": 2.0})),
            ),
        ),
        leaks=(
            Leak(
                {"TPriDO": {"threshold": 2.0}},
                TREE,
                {"num_agents": 4, "num_items": 40, "repository": 20, "horizon": 20},
            ),
        ),
    ),
)
