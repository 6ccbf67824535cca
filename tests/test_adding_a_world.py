"""A world is added to a copy of the package by the checklist of CONTRIBUTING.md, and the house tests pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = (ROOT / "examples/contextual_world.py").read_text(encoding="utf-8")
WORLD, POLICY = EXAMPLE.partition("\n\nclass SharedGreedy")[::2]
DESCRIPTOR = '''"""What others must know of `contextual_bandit_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example

WORLDS = (
    Descriptor(
        name="contextual_bandit_v0",
        module="taciturn.envs.contextual_bandit.world",
        small={"num_agents": 3, "period": 5, "horizon": 40},
        size="num_agents",
        others="SharedGreedy",
        mechanisms={"counts": "Laplace:1"},
        example=Example(
            "SharedGreedy", "num_envs=20", ("SharedGreedy()", 'privacy={"counts": Laplace(1.0)}'), "Laplace"
        ),
    ),
)
'''
TASKS = """measure = "regret"
steps = 20_000
classic = ["SharedGreedy"]
tuned = ["TrainedAgent"]

[variants]
crowd = { what = "100 agents instead of 20", params = { num_agents = 100 } }
lost = { what = "half of the messages are lost", faults.counts = ["LossyChannel", { probability = 0.5 }] }

[budgets]
channels = ["counts"]
mechanism = "Laplace:{}"
messages = 1
protects = "one count"

[attacks]
mechanism = "Laplace:{}"
params = { num_agents = 3, period = 5, horizon = 40 }
runs = [{ policies = ["SharedGreedy"] }]
"""
CHANGED = {
    "envs/__init__.py": (
        ('    "elicitation",\n', '    "elicitation",\n    "contextual_bandit",\n'),
        (
            "    from taciturn.envs.elicitation",
            "    from taciturn.envs.contextual_bandit.world import contextual_bandit_v0 as contextual_bandit_v0\n"
            "    from taciturn.envs.elicitation",
        ),
    ),
    "pyproject.toml": (
        ('    "taciturn.envs.core",\n', '    "taciturn.envs.contextual_bandit",\n    "taciturn.envs.core",\n'),
    ),
    "CHANGELOG.md": (("### Added\n\n", "### Added\n\n- `contextual_bandit_v0`.\n"),),
    "policies/__init__.py": (
        (
            "from taciturn.policies.classic.cooperative",
            "from taciturn.policies.classic.contextual_bandit import SharedGreedy\n"
            "from taciturn.policies.classic.cooperative",
        ),
        (' "SingleAgent",', '\n    "SharedGreedy",\n    "SingleAgent",'),
    ),
}
"""The lines of the checklist that touch files of others, the last of which is that of policies."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy") / "taciturn"
    made = shutil.ignore_patterns(".*", "__pycache__", "_build", "results", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, root, symlinks=True, ignore=made)
    for results in ("benchmarks/results", "tools/results"):
        shutil.copytree(ROOT / results, root / results)
    for name, edits in CHANGED.items():
        text = (root / name).read_text(encoding="utf-8")
        for before, after in edits:
            assert before in text, (name, before)
            text = text.replace(before, after, 1)
        (root / name).write_text(text, encoding="utf-8")
    folder = root / "envs/contextual_bandit"
    folder.mkdir()
    world = re.sub(r"^import taciturn\n|^from taciturn\.(policies|wrappers) import .*\n", "", WORLD, flags=re.MULTILINE)
    world = world.replace("PublicView, ", "")
    (folder / "__init__.py").write_text('"""A contextual bandit."""\n', encoding="utf-8")
    (folder / "world.py").write_text(world.rstrip() + "\n", encoding="utf-8")
    (folder / "descriptor.py").write_text(DESCRIPTOR, encoding="utf-8")
    (root / "bench/tasks/contextual_bandit_v0.toml").write_text(TASKS, encoding="utf-8")
    policy = POLICY.partition('\n\nif __name__ == "__main__"')[0]
    (root / "policies/classic/contextual_bandit.py").write_text(
        '"""A baseline for `contextual_bandit_v0`."""\n\nimport numpy as np\n\n'
        "from taciturn.envs.core import PublicView\nfrom taciturn.policies.base import Policy\n"
        f"from taciturn.validation import Array\n\n\nclass SharedGreedy{policy.rstrip()}\n",
        encoding="utf-8",
    )
    run(root, "pytest", "-q", "-n", "0", "--regenerate-golden", "tests/test_tasks.py", "-k", "published")
    return root


def run(copy: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy / "papers/src")])},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_at_most_three_files_of_others_change() -> None:
    assert len([name for name in CHANGED if not name.startswith("policies/")]) <= 3


NEW = "contextual_bandit or ContextualBandit or SharedGreedy"
# Tests of the new world, and those of no world by itself: what is tested of each of the others has not changed.
HOUSE = {
    f"{NEW} or speed or is_here": ["registry", "hostile", "interfaces", "docs", "public_view"],
    f"{NEW} or not v0": [
        *("packaging", "policy_rules", "run_audit", "settings", "tasks", "privacy_budgets", "learner_studies"),
        *("fast_forms", "libraries", "by_hand", "studies"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("chosen", HOUSE, ids=lambda chosen: HOUSE[chosen][0])
def test_the_house_tests_pass(copy: Path, chosen: str) -> None:
    files = [f"tests/test_{name}.py" for name in HOUSE[chosen]]
    run(copy, "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow", *files, "-k", chosen)


@pytest.mark.slow
def test_it_passes_lint_and_types(copy: Path) -> None:
    run(copy, "ruff", "check", ".")
    run(copy, "ruff", "format", "--check", ".")
    run(copy, "mypy", "src/taciturn/envs/contextual_bandit", "src/taciturn/policies/classic/contextual_bandit.py")
