"""What must work where only the suite's wheel is installed: `python smoke.py WHEEL` without any extra, and `python
smoke.py WHEEL commands` with `bench` and `rl`; run by `.ci/run`."""

import math
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import gymnasium

import taciturn
from taciturn import registry


def wheel_holds_only_taciturn(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "taciturn/policies/learned/pretrained/elicitation-standard-0.safetensors" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"taciturn", f"taciturn-{taciturn.__version__}.dist-info"}, tops


def worlds_can_be_made_and_stepped() -> None:
    env = gymnasium.make("taciturn/RoundStopping-v0")
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    observation, reward, *_ = env.step(0)
    assert observation in env.observation_space
    assert math.isfinite(reward)

    for name, world in registry.worlds().items():
        try:
            population = world.population(num_envs=2)
            population.reset(seed=0)
        except ImportError as error:
            if "pip install '.[" not in str(error):
                raise
            print(f"{name}: {error}")
            continue
        agents = world.env()
        agents.reset(seed=0)
        for agent in agents.agent_iter(max_iter=20):
            _, _, terminated, truncated, info = agents.last()
            mask = info.get("action_mask")
            agents.step(None if terminated or truncated else agents.action_space(agent).sample(mask))
        print(f"{name}: made and stepped")


def told(*words: str) -> subprocess.CompletedProcess[str]:
    command = Path(sysconfig.get_path("scripts")) / "taciturn"
    return subprocess.run([command, *words], capture_output=True, text=True, check=False)


def the_command_runs_or_names_the_extra() -> None:
    done = told("list")
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0 or "pip install '.[bench]'" in done.stderr, done.stderr
    print(f"taciturn list: {done.stderr.strip() or 'runs'}")


def commands_work_and_reproduce_names_the_papers() -> None:
    for words in (
        "list",
        "show social-recommender",
        "run gossip_bandit --policy PPCL --until 20 --runs 2",
        "train round_stopping --steps 64 --out agent",
        "bench --quick --yes --where env=round_stopping_v0 --out results",
        "report results",
    ):
        done = told(*words.split())
        assert done.returncode == 0, (words, done.stderr)
        print(f"taciturn {words}: runs")
    done = told("reproduce", "--quick")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert len(done.stderr.splitlines()) == 1
    assert "taciturn-papers" in done.stderr
    print(done.stderr.strip())


if __name__ == "__main__":
    assert "site-packages" in taciturn.__file__, taciturn.__file__
    if sys.argv[2:] == ["commands"]:
        commands_work_and_reproduce_names_the_papers()
    else:
        wheel_holds_only_taciturn(Path(sys.argv[1]))
        worlds_can_be_made_and_stepped()
        the_command_runs_or_names_the_extra()
