"""The price of privacy: federated training on digits with clipped and noised client updates."""

from typing import ClassVar

from taciturn.bench.figures import plot_curves, plot_privacy, plot_scores
from taciturn.bench.play import config, play
from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, register

CLIP = 0.1
LEVELS = (None, "NoPrivacy", "Gaussian:64,delta=1e-6", "Gaussian:16,delta=1e-6", "Gaussian:4,delta=1e-6", "Laplace:64")


@register
class PrivacyPrice(Study):
    name = "privacy-price"
    title = "The price of privacy in federated training"
    description = (
        "Softmax regression on scikit-learn's digits, 100 clients, computing and upload times as in the paper. Each client clips its "
        "update to Euclidean norm 0.1 and adds noise (local, user-level privacy: sensitivity 0.2). The noise of a round's mean falls "
        "with the number of updates, but waiting for more of them takes time. Epsilon is the total loss of the client who sent most, "
        "under zCDP composition at delta = 1e-5, not the level of one message. The first row neither clips nor adds noise, the second "
        "clips only."
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
        return play(cell, record=["test_loss"], until=cell.config["env_params"]["horizon"], progress=progress)

    def plots(self, results: Results) -> list[Plot]:
        return [
            plot_curves(self, results, "test_loss", x_label="time (s)", y_label="held-out cross-entropy (nats)"),
            plot_privacy(self, results, "epsilon_zcdp"),
            plot_scores(self, results),
        ]
