"""What holds of every study, whoever's it is."""

import json
from collections.abc import Container

from taciturn.bench.play import learns
from taciturn.bench.results import Cell
from taciturn.bench.study import Study
from taciturn.bench.tasks import BENCHMARKS
from taciturn.bench.tasks.benchmark import PLAIN_PPO
from taciturn.registry import entry, one_agent


def check_cells_differ(study: Study) -> None:
    for quick in (True, False):
        cells = study.cells(quick)
        assert len({cell.key for cell in cells}) == len(cells), quick


def check_seeds(study: Study, *, fewest: int = 5, more: bool = False, certain: Container[str] = ()) -> None:
    """No configuration has too few seeds, or others than declared: `more` if some have more, `certain` are policies
    that draw nothing."""
    declared = getattr(study, "seeds", (5, 20))[1]
    assert declared >= fewest
    seeds: dict[str, set[int]] = {}
    for cell in study.cells(False):
        seeds.setdefault(json.dumps(cell.config), set()).add(cell.seed)
    for config, found in seeds.items():
        if "trials" in json.loads(config):  # an audit, which plays thousands of runs for one certificate
            assert found == {0}, config
            continue
        policy = str(json.loads(config).get("policy"))
        expected = 1 if policy in certain else 10 if learns(policy) or policy == PLAIN_PPO else declared
        assert len(found) >= expected if more else len(found) == expected, config
        assert found == set(range(len(found))), config


def check_settings(study: Study) -> None:
    """Its worlds allow all settings, those that only full runs play too: qualities are probabilities, and names are
    those of parameters."""
    settings = {}
    for quick in (True, False):
        for cell in study.cells(quick):
            if "env" in cell.config and "env_params" in cell.config:
                settings[json.dumps([cell.config["env"], cell.config["env_params"]])] = cell.config
    for config in settings.values():
        env, params = config["env"], config["env_params"]
        benchmark = BENCHMARKS.get(env)
        if benchmark is not None and benchmark.side is not None and benchmark.for_learners.items() <= params.items():
            assert one_agent(env, 1, params).num_envs == 1  # learners play one side
        else:
            assert entry(env).world.population(**params).num_envs == 1


def first(study: Study, **entries: object) -> Cell:
    """The first cell of a quick run with these entries."""
    return next(cell for cell in study.cells(True) if entries.items() <= cell.config.items())
