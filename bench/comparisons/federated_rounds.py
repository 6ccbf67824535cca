"""Federated rounds: when to end them, in the model and in real training on digits, and what privacy costs in
training."""

from typing import ClassVar

from taciturn.bench.figures import plot_curves, plot_privacy, plot_scores
from taciturn.bench.play import HOW_LEARNERS_ARE_JUDGED, config, evaluate, learns, play
from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, register

CLIP = 0.1
LEVELS = (None, "NoPrivacy", "Gaussian:64,delta=1e-6", "Gaussian:16,delta=1e-6", "Gaussian:4,delta=1e-6", "Laplace:64")
LABELS = {"x_label": "time (s)", "y_label": "held-out cross-entropy (nats)"}
CLASSIC: tuple[tuple[str, Config], ...] = (
    ("OptimalStopping", {}),
    ("OptimalStopping", {"thresholds": [10, 8]}),
    ("OneStepLookAhead", {}),
    ("FixedCount", {"k": 5}),
    ("Fraction", {"fraction": 0.1}),
    ("Deadline", {"slots": 30}),
    ("WaitForAll", {}),
    ("Random", {}),
)


@register
class PrivacyPrice(Study):
    name = "privacy-price"
    title = "The price of privacy in federated training"
    description = (
        "Softmax regression on scikit-learn's digits, 100 clients, computing and upload times as in the paper. Each "
        "client clips its update to Euclidean norm 0.1 and adds noise (local, user-level privacy: sensitivity 0.2). "
        "The noise of a round's mean falls with the number of updates, but waiting for more of them takes time. "
        "Epsilon is the total loss of the client who sent most, under zCDP composition at delta = 1e-5, not the level "
        "of one message. The first row neither clips nor adds noise, the second clips only."
    )
    score = Score("test_loss", higher_is_better=False, label="final held-out cross-entropy (nats)")
    reference: ClassVar[Config] = {"privacy": "NoPrivacy", "env_params.clip_norm": CLIP}
    facets = ("policy_params.k",)
    color = "privacy"

    def cells(self, quick: bool) -> list[Cell]:
        budget, found = 150.0 if quick else 300.0, []
        for k in (10, 50):
            for level in LEVELS:
                clip = {} if level is None else {"clip_norm": CLIP}
                params = {"horizon": budget, **clip}
                found.append(config("federated_training_v0", "FixedCount", {"k": k}, level or "NoPrivacy", **params))
        return self.sweep(found, range(5 if quick else 20))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return play(cell, record=["test_loss"], until=cell.config["env_params"]["horizon"])

    def plots(self, results: Results) -> list[Plot]:
        return [
            plot_curves(self, results, "test_loss", **LABELS),
            plot_privacy(self, results, "epsilon_zcdp"),
            plot_scores(self, results),
        ]


def learners(quick: bool) -> list[tuple[str, Config]]:
    """PPO, DQN and tabular Q-learning, with their training budgets."""
    if quick:
        return [
            ("LearnedStopping", {"algorithm": "PPO", "stages": 2}),
            ("LearnedStopping", {"algorithm": "DQN", "stages": 2}),
            ("TabularQ", {"sessions": 10}),
        ]
    return [("LearnedStopping", {"algorithm": "PPO"}), ("LearnedStopping", {"algorithm": "DQN"}), ("TabularQ", {})]


def cells(study: Study, worlds: list[tuple[str, Config]], quick: bool, seeds: int, learner_seeds: int) -> list[Cell]:
    """Every rule in every world; learners have fewer seeds."""
    found = []
    for env, params in worlds:
        found += study.sweep((config(env, name, own, **params) for name, own in CLASSIC), range(seeds))
        learned = [config(env, name, own, **params) for name, own in learners(quick)]
        found += study.sweep((one | {"replicas": 20} if quick else one for one in learned), range(learner_seeds))
    return found


@register
class RoundStoppingStudy(Study):
    name = "round-stopping"
    title = "Round stopping: reward rates compared"
    description = (
        "The paper's setting (M = 100, t0 = 3 s, slots of 10 ms, mu = 5/8, p = 1/500, R(k) = 0.04 - 0.018/(k+1)), with "
        "geometric and with heavy-tailed (Pareto) times. A cell is 20 sessions of 600 s, for learners more. "
        + HOW_LEARNERS_ARE_JUDGED
    )
    score = Score("rate", label="rate (reward per second)")
    reference: ClassVar[Config] = {"policy": "OptimalStopping", "policy_params": {}}
    facets = ("env_params.time_law",)

    def cells(self, quick: bool) -> list[Cell]:
        laws = [("round_stopping_v0", {"time_law": law, "horizon": 600.0}) for law in ("geometric", "pareto")]
        if quick:
            laws = [(env, {**params, "horizon": 200.0}) for env, params in laws[:1]]
        return cells(self, laws, quick, 10 if quick else 20, 2 if quick else 10)

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return evaluate(cell, self.score.metric, replicas=20, progress=progress)

    def plots(self, results: Results) -> list[Plot]:
        return [plot_scores(self, results)]


@register
class FederatedTrainingStudy(Study):
    name = "federated-training"
    title = "Federated training on digits: loss against time"
    description = (
        "Softmax regression on scikit-learn's digits (1,797 images, a fifth held out), federated averaging over 100 "
        "clients, IID and with label skew (Dirichlet, 0.3 per class). Computing and upload times are the paper's. "
        "Rules that plan use the reward curve fitted to IID training; learners are trained in that model and evaluated "
        "in real training. " + HOW_LEARNERS_ARE_JUDGED
    )
    score = Score("test_loss", higher_is_better=False, label="final held-out cross-entropy (nats)")
    reference: ClassVar[Config] = {"policy": "OptimalStopping", "policy_params": {}}
    facets = ("env_params.concentration",)

    def cells(self, quick: bool) -> list[Cell]:
        budget = 120.0 if quick else 300.0
        worlds = [("federated_training_v0", {"concentration": c, "horizon": budget}) for c in (None, 3.0)]
        kept = cells(self, worlds, quick, 5 if quick else 20, 1 if quick else 10)
        # One learner suffices to see how training in the model transfers to data.
        return [
            c for c in kept if not learns(c.config["policy"]) or c.config["policy_params"].get("algorithm") == "PPO"
        ]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        budget = cell.config["env_params"]["horizon"]
        names = ["test_loss", "test_accuracy"]
        return evaluate(cell, self.score.metric, replicas=1, record=names, until=budget, progress=progress)

    def plots(self, results: Results) -> list[Plot]:
        return [plot_curves(self, results, "test_loss", **LABELS), plot_scores(self, results)]
