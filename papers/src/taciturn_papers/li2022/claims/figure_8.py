"""Figure 8: heterogeneous rewards."""

from taciturn.bench.results import Results
from taciturn_papers.claims import Claim, alike, group_of, mean, ratio_of, read
from taciturn_papers.li2022 import formulas
from taciturn_papers.li2022.claims.shared import PREDICTED, REGRET, by_formulas, text, value_of
from taciturn_papers.li2022.formulas import expected
from taciturn_papers.li2022.settings import HORIZON, few_agents

ALIKE, DIFFER = few_agents("CDPMAB", "uniform"), few_agents("CDPMAB", "heterogeneous")
ALONE, LONE = few_agents("SingleAgent", "uniform"), few_agents("SingleAgent", "heterogeneous")
GRID = few_agents("CDPMAB", "grid"), few_agents("SingleAgent", "grid")


def slope_note(results: Results) -> str:
    """The regret per slot of agents that play their own best arm."""
    lost = formulas.bias_slope(LONE["env_params"]["num_arms"], LONE["env_params"]["num_agents"])
    ends = [text(value_of(results, one, "final_slope")) for one in (DIFFER, ALONE)]
    return (
        f"agents that play their own best arm lose {text(lost)} per slot on average, over 4,000 drawn instances. At "
        f"the end of a run CDP-MAB loses {ends[0]} per slot, and single agents lose {ends[1]} with homogeneous rewards"
    )


HETEROGENEITY = (
    Claim(
        "Figure 8: CDP-MAB has similar regret with heterogeneous and homogeneous rewards (ratio of the first to the "
        "second)",
        "Section VII-A3: 'our proposed method obtain similar regrets under two reward structures'",
        "similar",
        lambda r: ratio_of(r, DIFFER, ALIKE, REGRET),
        alike(1, 0.3, "'similar'"),
        1.0,
        5.0,
        lambda r: (
            f"{PREDICTED} the ratio would be {by_formulas(DIFFER, ALIKE)}. Averaged over agents, the means of the arms "
            "are closer together. Smaller gaps take longer to resolve, but an inferior arm costs less"
        ),
    ),
    Claim(
        "Figure 8: CDP-MAB reaches 1/M of a single agent's regret with homogeneous rewards (ratio of the regrets, M = "
        "5)",
        "Section VII-A3: 'which reached … of the single-agent performance under homogeneous reward'",
        "0.2",
        lambda r: ratio_of(r, ALIKE, ALONE, REGRET),
        read(0.2, 0.02, "1/M with M rounded to an integer, from 1/5.5 to 1/4.5"),
        0.2,
        1.0,
        lambda r: (
            f"{PREDICTED} the ratio would be {by_formulas(ALIKE, ALONE)}, and {by_formulas(*GRID)} for means on a "
            "grid. The ratio is 1/M if T is large enough for a single agent to finish exploring; at T = 10^5 a single "
            f"agent would have {text(expected(ALONE)['left'])} arms left on average"
        ),
    ),
    Claim(
        "Figure 8: single agents have linear regret with heterogeneous rewards (ratio of the last fifth's slope to the "
        "mean slope)",
        "Section VII-A3: 'the inconsistency will bring a linear regret with'",
        "linear",
        lambda r: mean(group_of(r, LONE).metrics["final_slope"] * HORIZON / group_of(r, LONE).metrics[REGRET]),
        alike(1, 0.2, "'linear'"),
        1.0,
        0.0,
        slope_note,
    ),
)
