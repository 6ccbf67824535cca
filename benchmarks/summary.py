"""The README's table of speed, from what the other benchmarks wrote to `results/`: python benchmarks/summary.py"""

import json
from pathlib import Path
from typing import Any

__all__ = ["table"]

RESULTS = Path(__file__).parent / "results"


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def table() -> str:
    """Markdown."""
    gossip, social, elicitation, ucb = (load(name) for name in ("gossip", "social", "elicitation", "ucb_peer"))
    bandit, stopping, view = (load(name) for name in ("federated_bandit", "array_step", "parallel_view"))
    social_round = social["round_10000_agents_20_options_ms"]["median"]
    lean = stopping["100 lean environments"]["array_is_times_faster"]
    campaign = 1000 * elicitation["campaign_of_100000_individuals_4_values"]["seconds"]
    cdpmab = bandit["run_ms_per_replica"]["CDPMAB"]
    rows = [
        (
            f"gossip, 400 agents, 3,000 runs: {gossip['ticks'] / 1e6:.0f} million ticks",
            f"{gossip['compiled_seconds']:.1f} s (`fast`), {gossip['numpy_seconds']:.0f} s (NumPy)",
            f"{gossip['compiled_times_faster_than_by_hand']:,} times that of a loop over agents and messages",
        ),
        (
            "social learning, 10,000 agents, 20 options: a round",
            f"{social_round:.1f} ms",
            f"{social['view_1000_agents']['times_faster']:.1f} times that of a loop over dicts, as PettingZoo steps of 1,000 agents",
        ),
        ("federated bandit, CDP-MAB: a run of 100,000 slots", f"{cdpmab:.1f} ms", ""),
        (
            f"UCB1, {ucb['agents']} agents, {ucb['arms']} arms, {ucb['slots']:,} slots",
            f"{ucb['seconds']['taciturn simulate']:.2f} s",
            f"{ucb['ratio_to_simulate']['SMPyBandits loop']:.0f} times that of SMPyBandits {ucb['versions']['SMPyBandits']}",
        ),
        ("elicitation: a campaign of 100,000 individuals", f"{campaign:.0f} ms", ""),
        (
            f"round stopping: a step of {stopping['replicas']:,} replicas, each",
            f"{stopping['array_ns']:.0f} ns",
            f"{lean:.0f} times that of `SyncVectorEnv` over 100 lean scalar environments",
        ),
        (
            f"a PettingZoo step of {view['agents']:,} agents who vote",
            f"{view['parallel_view_ms_per_step']:.1f} ms",
            f"{view['times_faster']:.1f} times that of a loop over dicts",
        ),
        ("`import taciturn`", f"{load('import_time')['import_taciturn_s']:.1f} s", ""),
    ]
    lines = ["| what | time | speed |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)])


if __name__ == "__main__":
    print(table())
