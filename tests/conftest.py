"""One thread per worker, no windows, hypothesis examples that are the same on every run, and which tests are slow."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

for name, value in {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy"}.items():
    os.environ.setdefault(name, value)
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit it
    os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp()  # the key that signs what tests save

settings.register_profile("taciturn", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("taciturn")


SLOW, LIMIT = Path(__file__).with_name("slow.json"), 1.0  # seconds
_seconds: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate-golden", action="store_true", help="write what the golden tests compare with")
    parser.addoption(
        "--record-slow", action="store_true", help=f"write the tests that take {LIMIT:g} s or more to {SLOW.name}"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that took long when this was last recorded."""
    slow = set(json.loads(SLOW.read_text(encoding="utf-8"))) if SLOW.exists() else set()
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-slow") and not hasattr(session.config, "workerinput"):
        slow = sorted(name for name, seconds in _seconds.items() if seconds >= LIMIT)
        SLOW.write_text(json.dumps(slow, indent=0) + "\n", encoding="utf-8")
