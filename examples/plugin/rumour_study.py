"""A study of another package: how often agents are right, by how clear votes must be to be followed.

It names what it runs by import path, so that nothing has to be installed.
"""

from typing import ClassVar

from taciturn.bench.play import config, play
from taciturn.bench.results import Cell, Config, Progress, Result
from taciturn.bench.study import Score, Study


class Rumours(Study):
    name = "rumours"
    title = "Rumours: whom to believe"
    score = Score("right", label="right guesses in 20 steps")
    reference: ClassVar[Config] = {"policy_params.clear": 1.0}
    facets = ("privacy",)

    def cells(self, quick: bool) -> list[Cell]:
        results = [
            config("rumour:rumour_v0", "rumour:Sceptic", {"clear": clear}, privacy)
            for privacy in ("NoPrivacy", "rumour:Shrug:0.5")
            for clear in (0.0, 0.2, 1.0)
        ]
        return self.sweep(results, range(3 if quick else 20))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return play(cell, replicas=10)
