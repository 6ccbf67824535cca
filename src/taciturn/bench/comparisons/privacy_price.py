"""What does privacy cost? Federated training on digits with clipped and noised client updates."""

from typing import Any, ClassVar

from taciturn.bench.figures import Plot, plot_curves, plot_privacy, plot_scores
from taciturn.bench.play import config, play
from taciturn.bench.study import Cell, Config, Progress, Result, Results, Score, Study, register

CLIP = 0.1
LEVELS = (None, "NoPrivacy", "Gaussian:64,delta=1e-6", "Gaussian:16,delta=1e-6", "Gaussian:4,delta=1e-6", "Laplace:64")


@register
class PrivacyPrice(Study):
    name = "privacy-price"
    title = "The price of privacy in federated training"
    description = (
        "Softmax regression on scikit-learn's digits, 100 clients, the paper's clocks. Every update is clipped "
        "to a Euclidean norm of 0.1 and noised "
        "by its client (local, user-level privacy: sensitivity 0.2), so what counts is how many updates a round "
        "averages: the noise of the mean falls "
        "with their number, and waiting costs time. Privacy is what the client who sent most has spent in all, "
        "by zCDP composition at delta = 1e-5, "
        "and not what one message claims. The first row does not clip, the second clips and adds nothing."
    )
    score = Score("test_loss", higher_is_better=False, label="loss at the end (nats)")
    reference: ClassVar[Config] = {"privacy": "NoPrivacy"}
    facets = ("policy_params.k",)
    color = "privacy"

    def cells(self, quick: bool) -> list[Cell]:
        budget, found = 150.0 if quick else 300.0, []
        for k in (10, 50):
            for level in LEVELS:
                clip = {} if level is None else {"clip_norm": CLIP}
                found.append(
                    config(
                        "federated_training_v0",
                        "FixedCount",
                        {"k": k},
                        level or "NoPrivacy",
                        time_budget=budget,
                        **clip,
                    )
                )
        return self.sweep(found, range(5 if quick else 20))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return play(cell, record=["test_loss"], until=cell.config["env_params"]["time_budget"], progress=progress)

    def reference_group(self, panel: Results) -> Any:
        return next(
            (g for g in panel if g.config["privacy"] == "NoPrivacy" and "clip_norm" in g.config["env_params"]), None
        )

    def plots(self, results: Results) -> list[Plot]:
        return [
            plot_curves(self, results, "test_loss", x_label="time (s)", y_label="held-out cross-entropy (nats)"),
            plot_privacy(self, results, "epsilon"),
            plot_scores(self, results),
        ]
