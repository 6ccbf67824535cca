"""A pytest plugin of `mutants.py`. With `--watch FILE`, under `coverage run`, it makes each test a context of the
measurement and notes in FILE how long each took and which failed; with `--only FILE`, it runs the tests that FILE
lists, in that order."""

import json
from pathlib import Path

import coverage
import pytest

_tests: dict[str, dict[str, float | bool]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--watch", type=Path, help="note here what each test took, and under coverage what it runs")
    parser.addoption("--only", type=Path, help="run the tests that this file lists, in its order")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (file := config.getoption("--only")) is not None:
        place = {test: i for i, test in enumerate(json.loads(file.read_text(encoding="utf-8")))}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def pytest_runtest_logstart(nodeid: str) -> None:
    if (running := coverage.Coverage.current()) is not None:
        running.switch_context(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    noted = _tests.setdefault(report.nodeid, {"seconds": 0.0, "failed": False})
    noted["seconds"] += report.duration
    noted["failed"] = bool(noted["failed"] or report.failed)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (file := session.config.getoption("--watch")) is not None:
        file.write_text(json.dumps(_tests), encoding="utf-8")
