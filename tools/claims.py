"""Whether verdicts on papers' claims can fail.

Every claim of a paper that can be computed is fed the paper's own numbers, a null, and the paper's numbers times .5 and
1.5. Printed are how many hold, how many of those with a number do not see a change by half, each with its reason, and
the verdicts of the kept full runs; beside them the same of the commit that `results/claims.json` holds, where verdicts
had a second, wider tolerance. `python tools claims record` writes that file, with the code of
the checkout that it is run in.
"""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.bench.catalogue import load_studies

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "tools" / "results"
FACTORS = (0.5, 1.5)


def claims() -> list[Any]:
    """The claims of papers for which numbers are computed."""
    every = [claim for study in load_studies().values() for claim in getattr(study, "claims", ())]
    return [claim for claim in every if claim.measure is not None and not getattr(claim, "own", False)]


def scaled(claim: Any, factor: float) -> Any:
    """The paper's numbers times a factor."""
    values = np.multiply(claim.paper, factor)
    return float(values) if values.ndim == 0 else tuple(map(float, values))


def verdict(claim: Any, numbers: Any) -> str:
    return str(claim.judge(numbers))


def sees(claim: Any) -> list[bool]:
    """Whether the paper's numbers differ when they are halved, and when they are raised by half."""
    return [verdict(claim, scaled(claim, factor)) == "differs" for factor in FACTORS]


def reason(claim: Any) -> str:
    """Why a claim with a number does not differ when the number changes by half."""
    if not np.any(claim.paper):
        return "the paper's number is 0, and so is any multiple"
    return f"its tolerance is as wide ({claim.tolerance})"


def counts() -> dict[str, Any]:
    """How many claims hold what they are fed, and the verdicts of the kept runs."""
    some = claims()
    stored: Counter[str] = Counter()
    papers = json.loads((ROOT / "bench/stored_verdicts.json").read_text(encoding="utf-8"))
    for result in papers.values():
        stored.update(result["claims"])
    return {
        "claims that can be computed": len(some),
        "that the paper's numbers leave in place": sum(
            verdict(one, one.paper) in ("agrees", "qualitative") for one in some
        ),
        "that a null leaves in place": sum(verdict(one, one.null) in ("agrees", "qualitative") for one in some),
        "that neither half nor 1.5 times the number refutes": sum(not any(sees(one)) for one in some),
        "kept verdicts": dict(stored),
    }


def main(arguments: list[str]) -> None:
    now = counts()
    file = RESULTS / "claims.json"
    if arguments == ["record"]:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT)
        file.write_text(json.dumps({"commit": commit.stdout.strip(), **now}, indent=1) + "\n", encoding="utf-8")
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    print(f"{'':52}{before['commit'][:8]:>10}{'here':>8}")
    for name, count in now.items():
        if isinstance(count, int):
            print(f"{name:52}{before[name]:>10}{count:>8}")
    for name in dict.fromkeys([*before["kept verdicts"], *now["kept verdicts"]]):
        print(f"{'kept: ' + name:52}", *(f"{one['kept verdicts'].get(name, '-'):>9}" for one in (before, now)), sep="")
    for kind in ("number", "bound", "order"):
        some = [claim for claim in claims() if claim.states == kind]
        blind = [one for one in some if not any(sees(one))]
        half = [one for one in some if all(sees(one))]
        print(f"\n{kind}: {len(some)} claims; {len(some) - len(blind)} see half or 1.5 times, {len(half)} both")
        for one in blind * (kind != "order"):
            print(f"  {one.statement}: {reason(one)}")
