"""Pictures of T-PriDO as it learns: its clusters of items and its cells of contexts, refined over time (needs
matplotlib)."""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from taciturn.envs import recommender_v0
from taciturn.envs.recommender.drawing import draw_cells, draw_items
from taciturn.policies import TPriDO

shown = (1, 100, 1000, 5000)
env = recommender_v0.population(num_agents=4, graph="complete", horizon=shown[-1])
policy = TPriDO(threshold=2.0)  # it always asks its neighbours
env.reset(seed=5)
policy.reset(env, env.stream("policy"))

figure = Figure(figsize=(11, 5.2), layout="constrained")
rows = figure.subplots(2, len(shown))
for column, time in enumerate(shown):
    env.advance(policy, until=time)
    known = env.sketch(0, 0, env.state.served[0, 0])
    items, cells = rows[:, column]
    draw_items(env, items, known)
    items.get_legend().remove()
    items.set_title(f"round {time}: {len(known.leaves)} clusters", fontsize="medium")
    draw_cells(env, cells, known)
    if column:
        items.set_ylabel("")
        cells.set_ylabel("")
handles, labels = rows[0, -1].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)

target = Path(sys.argv[1] if len(sys.argv) > 1 else "results/recommender.png")
target.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(target, dpi=110)
print(target)
