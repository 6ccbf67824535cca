"""What must work where only the wheel is installed, without any extra: `python smoke.py WHEEL`, run by `.ci/run`."""

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
    assert "taciturn/policies/learned/settings/round_stopping.yml" in names
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


def the_command_runs_or_names_the_extra() -> None:
    command = Path(sysconfig.get_path("scripts")) / "taciturn"
    done = subprocess.run([command, "list"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0 or "pip install '.[bench]'" in done.stderr, done.stderr
    print(f"taciturn list: {done.stderr.strip() or 'runs'}")


if __name__ == "__main__":
    assert "site-packages" in taciturn.__file__, taciturn.__file__
    wheel_holds_only_taciturn(Path(sys.argv[1]))
    worlds_can_be_made_and_stepped()
    the_command_runs_or_names_the_extra()
