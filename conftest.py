"""One thread per worker, no windows, hypothesis examples that are the same on every run, and which tests are slow."""

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

for name, value in {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy"}.items():
    os.environ.setdefault(name, value)
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit it
    os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp()  # the key that signs what tests save

settings.register_profile("taciturn", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("taciturn")

BEGAN, COLLECTED = pytest.StashKey[float](), pytest.StashKey["Counter[str]"]()

COSTS, LIMIT = Path(__file__).with_name("tests") / "slow.json", 0.3  # CPU seconds
"""What `--record-slow` wrote: the tests that took at least `LIMIT`, but the cheapest of each file; what the others took
together, and how many tests each file had."""
_seconds: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate-golden", action="store_true", help="write what the golden tests compare with")
    parser.addoption(
        "--record-slow",
        action="store_true",
        help=f"write the tests that take {LIMIT:g} CPU seconds or more to {COSTS.name}; run all tests with it",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that took long when this was last recorded."""
    slow = set(json.loads(COSTS.read_text(encoding="utf-8"))["slow"])
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)
    config.stash[COLLECTED] = Counter(item.nodeid.partition("::")[0] for item in items)


@pytest.fixture
def collected(request: pytest.FixtureRequest) -> Counter[str]:
    """The number of tests in each collected file, slow ones included."""
    found: Counter[str] = request.config.stash[COLLECTED]
    return found


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call `taciturn` with these words; returns its exit code, and what it printed to stdout and stderr."""

    def call(*words: str, columns: int = 120) -> tuple[int, str, str]:
        from taciturn.cli import main

        monkeypatch.setattr(sys, "argv", ["taciturn", *words])
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out.replace("\N{NO-BREAK SPACE}", " "), err

    return call


def cpu_seconds() -> float:
    """What this process and those that it waited for have used."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[BEGAN] = cpu_seconds()
    return (yield)


@pytest.hookimpl(tryfirst=True)  # also where the teardown of another plugin fails
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.user_properties.append(("cpu_seconds", cpu_seconds() - item.stash[BEGAN]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    used = dict(report.user_properties).get("cpu_seconds")
    if report.when == "teardown" and isinstance(used, float):  # workers send their reports to the main process
        _seconds[report.nodeid] = used


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not session.config.getoption("--record-slow") or hasattr(session.config, "workerinput"):
        return
    cheapest = {name.partition("::")[0]: name for name in sorted(_seconds, key=lambda one: -_seconds[one])}
    slow = {name for name, seconds in _seconds.items() if seconds >= LIMIT} - {*cheapest.values()}
    files = Counter(name.partition("::")[0] for name in _seconds)
    fast = sum(seconds for name, seconds in _seconds.items() if name not in slow)
    found = {"fast_cpu_seconds": round(fast), "tests": dict(sorted(files.items())), "slow": sorted(slow)}
    COSTS.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
