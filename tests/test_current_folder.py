"""A folder of results is data: of what lies in the current folder, nothing runs but the module that was asked for."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from taciturn import agents, current_folder
from taciturn.bench.catalogue import own_studies
from taciturn.bench.comparisons.kinds import digest
from taciturn.bench.runner import run_study
from taciturn.bench.store import Store
from taciturn.plugins import imported
from taciturn.policies import FixedCount

# Like the script `taciturn`, several times; the last line tells which modules it imported or missed, but for those that
# `python -m` imports by itself.
SCRIPT = """
import runpy, sys
before, missed = {*sys.modules}, set()

class Missed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        missed.update([name] if path is None else [])

sys.meta_path.append(Missed)
from taciturn.cli import main

for words in ("report .", "list", "leaderboard ."):
    sys.argv = ["taciturn", *words.split()]
    try:
        main()
    except SystemExit as stop:
        print(words, stop.code)
import json
print(json.dumps([sorted({name.partition(".")[0] for name in {*sys.modules} - before}), sorted(missed)]))
"""
STUDY = """
from taciturn.bench.results import Result
from taciturn.bench.study import Score, Study

class Tiny(Study):
    name, title, score = "tiny", "A tiny study", Score("value")

    def cells(self, quick):
        return self.sweep([{"policy": "a"}], range(2))

    def run(self, cell, progress=None):
        import helper
        return Result({"value": helper.value(cell.seed)})
"""
COMMAND = ("bench", "mine:Tiny", "--workers", "2", "--out", "out", "--json")
MARK = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\n"
PLUGIN = "[taciturn.policies]\nEvil = evil:Evil\n[taciturn.worlds]\nevil_v0 = evil:evil\n"
NUMBA = "from taciturn.current_folder import numba; numba().njit(lambda: 1)(); print(numba().config.CACHE_DIR)"


def python(*words: str, folder: Path) -> str:
    """What Python prints in a folder, whose modules it finds only if it looks there by itself."""
    found = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, encoding="utf-8", env=found, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def plant(folder: Path, names: list[str]) -> None:
    """Put modules of these names, a package that declares a policy, and libraries' settings into a folder."""
    for name in ["evil", "sitecustomize", "usercustomize", *names]:
        (folder / f"{name}.py").write_text(MARK, encoding="utf-8")
    declared = folder / "evil-1.0.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n", encoding="utf-8")
    (declared / "entry_points.txt").write_text(PLUGIN, encoding="utf-8")
    (folder / "matplotlibrc").write_text("text.usetex: True\n", encoding="utf-8")
    (folder / ".numba_config.yaml").write_text("cache_dir: evil\n", encoding="utf-8")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results."""
    folder = tmp_path_factory.mktemp("results")
    study = own_studies()["social-recommender"]
    run_study([study], Store(folder), quick=True, progress=False, where={"policy": "Random"})
    return folder


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("bin") / "script.py"
    file.write_text(SCRIPT, encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def names(results: Path, script: str) -> tuple[list[str], list[str]]:
    """The modules that the commands import, and those that they do not find."""
    used, missed = json.loads(python(script, folder=results).splitlines()[-1])
    assert {"numpy", "typer", "pyarrow", "matplotlib", "shlex"} <= {*used}
    return used, missed


def test_reading_results_runs_nothing_of_their_folder(
    results: Path, script: str, names: tuple[list[str], list[str]]
) -> None:
    plant(results, [*names[0], *names[1]])
    told = python(script, folder=results)
    assert [*results.glob("*.ran")] == []
    assert {"report . 0", "list 0"} <= {*told.splitlines()}
    assert "Evil" not in told


@pytest.mark.slow
def test_workers_take_from_the_folder_what_was_asked_for(tmp_path: Path, names: tuple[list[str], list[str]]) -> None:
    """And so does `python -m taciturn`."""
    plant(tmp_path, [name for name in names[0] if name != "taciturn"])  # which Python would run for itself
    (tmp_path / "mine.py").write_text(STUDY, encoding="utf-8")
    (tmp_path / "helper.py").write_text("value = float\n", encoding="utf-8")
    told = python("-m", "taciturn", *COMMAND, folder=tmp_path)
    assert json.loads(told)["studies"]["tiny"]["groups"][0]["metrics"] == {"value": [0.0, 1.0]}
    assert [*tmp_path.glob("*.ran")] == []


@pytest.mark.slow
def test_settings_of_numba_in_the_folder_are_not_read(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    plant(tmp_path, [])
    assert python("-c", NUMBA, folder=tmp_path) == "\n"


def test_modules_of_the_folder_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(current_folder, "searched", False)
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if one is not current_folder.Modules])
    Path("only_here.py").write_text("Agent = 3\n", encoding="utf-8")
    Path("random.py").write_text("Agent = 3\n", encoding="utf-8")
    with pytest.raises(ValueError, match="there is no module 'only_here'"):
        imported("only_here:Agent")
    monkeypatch.setattr(current_folder, "searched", True)
    assert imported("only_here:Agent") == 3
    for asked in (imported, agents.bring):
        with pytest.raises(ValueError, match=r"the installed module random comes before random[.]py of the current"):
            asked("random:Agent")
    del sys.modules["only_here"]
    assert tmp_path not in map(Path, sys.path)


def test_a_file_that_is_trusted_may_name_a_module_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner of the user's own class, which taciturn train has saved."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if one is not current_folder.Modules])
    Path("learner_here.py").write_text("Agent = 3\n", encoding="utf-8")

    def load(path: str) -> object:
        try:
            return importlib.import_module("learner_here").Agent  # as unpickling does
        except ModuleNotFoundError as error:
            raise ValueError("it cannot be loaded") from error

    for searched in (False, True):
        monkeypatch.setattr(current_folder, "searched", searched)
        if searched:
            assert agents.loaded("folder", load, "agent", {}, False) == 3
        else:
            with pytest.raises(ValueError, match="it cannot be loaded"):
                agents.loaded("folder", load, "agent", {}, False)
    del sys.modules["learner_here"]


@pytest.mark.parametrize("name", ["Random", "random", "pretrained:social-standard-0", "nowhere:Random"])
def test_a_folder_is_not_taken_for_what_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = FixedCount(3)
    monkeypatch.setattr(agents, "load_trained", lambda folder: trained)
    for folder in (name, "agent", name.rpartition(":")[2]):
        Path(folder).mkdir(exist_ok=True)
        Path(folder, "model.zip").touch()
    if name.startswith("nowhere"):
        with pytest.raises(ValueError, match="there is no module 'nowhere'"):
            agents.bring(name)
    else:
        assert agents.bring(name) is not trained
    assert digest(name) == {}
    for place in (Path(name), f"./{name}", f"{tmp_path}/{name}", "agent"):
        assert agents.bring(place) is trained
    assert digest(f"./{name}") != {}
