"""The workflows run only what `.ci/run` has, and on every Python that the package says it supports."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
RUN = ROOT / ".ci/run"
WORKFLOWS = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in (ROOT / ".github/workflows").glob("*.yml")}
PARTS = re.search(r'^PARTS="(.+)"$', RUN.read_text(encoding="utf-8"), re.MULTILINE)[1].split()  # type: ignore[index]


def commands(workflow: Any) -> list[str]:
    """The lines that the jobs of a workflow run, one for each value of their matrices."""
    found = []
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for line in (step["run"] for step in job["steps"] if "run" in step):
            name = re.search(r"\$\{\{ matrix\.(\w+) \}\}", line)
            found += [line.replace(name[0], value) for value in matrix[name[1]]] if name else [line]
    return found


def parts_of(workflow: Any) -> set[str]:
    """The parts of `.ci/run` that a workflow runs."""
    return {part for line in commands(workflow) if line.startswith(".ci/run ") for part in line.split()[1:]}


def test_workflows_run_parts_that_there_are() -> None:
    assert {"ci", "release"} == set(WORKFLOWS)
    # A new machine has neither an environment to remove nor a right to install a browser.
    assert parts_of(WORKFLOWS["ci"]) == set(PARTS) - {"environment", "browser"}
    assert parts_of(WORKFLOWS["release"]) == {"build", "wheel"}


def test_each_part_is_a_function_and_all_run_by_default_tests_last() -> None:
    defined = re.findall(r"^(\w+)\(\) \{", RUN.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in defined if name not in ("step", "beside")] == PARTS
    default = RUN.read_text(encoding="utf-8").partition("if [ $# = 0 ]; then\n")[2].partition("else\n")[0]
    run = [word for word in re.findall(r"\w+", default) if word != "beside"]
    assert sorted(run) == sorted(PARTS), "each once"
    assert run[0] == "environment"
    assert run[-1] == "tests", "the last line is pytest's summary"


def test_an_unknown_part_is_refused_before_anything_runs() -> None:
    found = subprocess.run(["bash", RUN, "lint", "lnt"], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"there is no part 'lnt'; there are: {' '.join(PARTS)}\n"


def test_every_supported_python_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert WORKFLOWS["ci"]["jobs"]["tests"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_have_no_more_rights_than_they_need(name: str) -> None:
    workflow = WORKFLOWS[name]
    assert workflow["permissions"] == {"contents": "read"}
    uses = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", one) for one in uses)
    writes = {key: job for key, job in workflow["jobs"].items() if "permissions" in job}
    assert set(writes) == ({"publish"} if name == "release" else set())
    assert all("vars.PUBLISH == 'true'" in job["if"] for job in writes.values())
