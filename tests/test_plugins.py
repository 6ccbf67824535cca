"""Worlds, policies, mechanisms and studies of other packages: by entry point, by import path, and what is said of
broken ones."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest

import taciturn
from taciturn import plugins, registry
from taciturn.bench.catalogue import STUDY_PLUGINS, studies_named
from taciturn.bench.play import learns
from taciturn.bench.tasks import TABLE_PLUGINS
from taciturn.mechanism_names import MECHANISM_PLUGINS, named_mechanisms, parse_mechanism
from taciturn.plugins import PluginError, PluginWarning

EXAMPLE = Path(__file__).parent.parent / "examples" / "plugin"
GROUPS = (registry.WORLD_PLUGINS, registry.POLICY_PLUGINS, MECHANISM_PLUGINS, STUDY_PLUGINS, TABLE_PLUGINS)
# Another package, of which one thing in each group can be used, and these cannot, for these reasons.
BROKEN = {
    "taciturn.worlds": {
        "lost_v0": ("nowhere:lost_v0", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        "Spaced Out": ("rumour:rumour_v0", r"has a name that does not match [a-z][a-z0-9_]*_v\d+"),
        "gossip_bandit_v0": ("rumour:rumour_v0", "has a name that is taken already"),
    },
    "taciturn.policies": {
        "Pi": ("math:pi", "must be a subclass of taciturn.policies.Policy, and is 3.141592653589793"),
        "Sceptic": ("rumour:Sceptic", "has a name that is taken already"),
    },
    "taciturn.mechanisms": {"Hush": ("rumour:Hush", "cannot be imported: AttributeError: ")},
    "taciturn.tasks": {
        "gossip_bandit_v0": ("rumour:TASKS", "has a name that is taken already"),
        "nowhere_v0": ("rumour:TASKS", "cannot be used: unknown environment 'nowhere_v0': "),
        "sounds_v0": (
            "rumour:KNOWN",
            "must be a table as in taciturn.bench.tasks, a mapping or a text in TOML, and is ",
        ),
        "rumours_v0": ("rumour:__doc__", "cannot be used: Expected '=' after a key in a key/value pair (at line 1, "),
    },
    "taciturn.studies": {
        "gossip": ("rumour_study:Rumours", "must be a subclass of taciturn.bench.study.Study of that name")
    },
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed the example, with a package whose declarations are broken beside it."""
    folder = tmp_path_factory.mktemp("site")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", folder, source], check=True)
    shutil.rmtree(source)
    broken = folder / "zz_broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: zz-broken\nVersion: 1.0\n")
    said = {group: {name: value for name, (value, _) in some.items()} for group, some in BROKEN.items()}
    said["taciturn.worlds"] |= {"quiet_v0": "rumour:rumour_v0"}  # which can be used, and has no table of tasks
    lines = (f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in some.items()) for group, some in said.items())
    (broken / "entry_points.txt").write_text("\n".join(lines))
    return folder


def forget() -> None:
    """Nothing is known of other packages."""
    plugins.installed.cache_clear()
    for group in GROUPS:
        vars(group).pop("entries", None)
        group._refused.clear()


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(site)
    forget()
    registry.register()
    yield
    forget()
    names = ("parallel_registry", "aec_registry")
    for known in (gymnasium.registry, *(getattr(pettingzoo, name, {}) for name in names)):
        known.pop("taciturn/Rumour-v0", None)
        known.pop("taciturn/Lost-v0", None)
        known.pop("taciturn/Quiet-v0", None)


def played(world: str, policy: str, mechanism: str) -> Any:
    population = registry.make_world(world).population(3)
    return taciturn.simulate(population, policy, seed=0, privacy={"vote": parse_mechanism(mechanism)}).metrics


@pytest.mark.usefixtures("installed")
def test_what_a_package_declares_is_known_by_name() -> None:
    for name in ("rumour", "rumour_v0", "taciturn/Rumour-v0", "Rumour"):
        assert registry.make_world(name).name == "rumour"
    assert played("rumour", "Sceptic", "Shrug:0.2")["epsilon_message"][0] == pytest.approx(np.log(9))
    env: Any = gymnasium.make("taciturn/Rumour-v0", others="Sceptic", num_agents=3)
    assert env.reset(seed=0)[0].shape == (4,)
    assert gymnasium.make_vec("taciturn/Rumour-v0", num_envs=2, others="Sceptic").reset(seed=0)[0].shape == (2, 4)
    if hasattr(pettingzoo, "make"):
        assert len(pettingzoo.make("parallel", "taciturn/Rumour-v0").possible_agents) == 9
    with pytest.raises(ValueError, match="rumour_v0 has many agents: give others="):
        gymnasium.make("taciturn/Rumour-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        (study,) = studies_named(["rumours"])
        assert "Shrug" in named_mechanisms()
    cell = study.cells(quick=True)[0]
    assert study.run(cell).metrics["right"] > 10
    with pytest.raises(taciturn.UnknownName, match=r"unknown environment 'rumor': did you mean .*rumour_v0"):
        registry.make_world("rumor")


def test_nothing_has_to_be_installed_to_name_it_by_import_path() -> None:
    named = played("rumour:rumour_v0", "rumour:Sceptic", "rumour:Shrug:0.2")
    np.testing.assert_equal(played("rumour:rumour_v0", "rumour:Sceptic", "rumour:Shrug,shrug=0.2"), named)
    env: Any = gymnasium.make("taciturn/World-v0", world="rumour:rumour_v0", others="rumour:Sceptic")
    assert env.reset(seed=0)[0].shape == (4,)
    (study,) = studies_named(["rumour_study:Rumours"])
    assert study.run(study.cells(quick=True)[-1]).metrics["right"] > 10
    assert not learns("rumour:Sceptic")
    assert learns("taciturn.policies:TrainedAgent")
    for make, name, said in (
        (registry.make_world, "rumour:Sceptic", "must be a taciturn.envs.core.World, or its Descriptor, and is <class"),
        (registry.make_world, "rumour:nothing", "a name that the module has, not 'rumour:nothing'"),
        (registry.make_world, "rumours:nothing", "there is no module 'rumours'"),
        (parse_mechanism, "rumour:rumour_v0:3", "must be a subclass of taciturn.privacy.mechanisms.Mechanism"),
        (lambda name: studies_named([name]), "rumour:Sceptic", "must be a subclass of taciturn.bench.study.Study"),
    ):
        with pytest.raises(ValueError, match=said):
            make(name)


@pytest.mark.usefixtures("installed")
def test_what_is_broken_is_told_when_it_is_asked_for_and_breaks_nothing_else() -> None:
    with pytest.raises(
        PluginError, match=r"^package zz-broken: entry point 'lost_v0' = 'nowhere:lost_v0' in .* cannot be"
    ):
        registry.make_world("lost")
    with pytest.raises(
        PluginError, match=r"package zz-broken: entry point 'Pi' = 'math:pi' in taciturn.policies must be"
    ):
        registry.make_policy("Pi")
    assert registry.make_world("gossip_bandit_v0").name == "gossip_bandit"
    assert registry.make_policy("Sceptic").clear == 0.2
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert {"rumour_v0", "gossip_bandit_v0"} <= set(registry.worlds())
    assert {warning.category for warning in told} == {PluginWarning}
    assert len(told) == len(BROKEN["taciturn.worlds"])


def test_the_list_has_a_line_for_each_that_is_broken_and_all_the_others(site: Path) -> None:
    """Nor does `import taciturn` import what packages declare."""
    code = (
        "import sys, taciturn; assert not {'rumour', 'nowhere'} & set(sys.modules); from taciturn.cli import main; "
        "main()"
    )
    path = os.pathsep.join([str(site), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code, "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    found = json.loads(done.stdout)
    assert found["environments"]["taciturn/Rumour-v0"] == "rumour_v0"
    assert {f"taciturn/Rumour-v0/{name}" for name in ("standard", "crowd", "lost")} <= {
        task["id"] for task in found["tasks"]
    }
    assert found["environments"]["taciturn/Quiet-v0"] == "quiet_v0"
    assert not [task for task in found["tasks"] if task["id"].startswith("taciturn/Quiet")]
    assert "Sceptic" in found["policies"]
    assert "Shrug" in found["mechanisms"]
    assert "rumours" in found["studies"]
    lines = done.stderr.splitlines()
    for group, some in BROKEN.items():
        for name, (value, why) in some.items():
            said = f"taciturn: package zz-broken: entry point {name!r} = {value!r} in {group} {why}"
            assert sum(line.startswith(said) for line in lines) == 1, (said, done.stderr)
    assert len(lines) == sum(map(len, BROKEN.values()))
