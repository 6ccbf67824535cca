"""What axe-core finds in the report and in pages of the docs, light and dark, wide and narrow: nothing."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taciturn.bench.catalogue import load_studies
from taciturn.bench.report import write_report
from taciturn.bench.results import Results
from taciturn.bench.store import Store
from taciturn.bench.submission import unpacked

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent
STORED = ROOT / "tools/results/studies/agents.json"
PAGES = ("index.md", "leaderboard.md", "api/worlds/gossip_bandit.world.rst")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        unpack = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield unpack
        unpack.close()


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """These pages of the docs alone: all take minutes to build. Links to the others lead nowhere."""
    out = tmp_path_factory.mktemp("docs")
    chosen = f"include_patterns={','.join(PAGES)}"
    command = [sys.executable, "-m", "sphinx", "-Q", "-b", "html", "-D", chosen, "-d", str(out / "trees")]
    subprocess.run([*command, str(ROOT / "docs"), str(out / "html")], check=True, timeout=600)
    return out / "html"


def violations(browser: "Browser", page: Path) -> list[str]:
    """What axe-core finds in a page, with the first place of each."""
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for scheme in ("light", "dark"):
        for width in (1400, 390):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            tab.goto(page.as_uri())
            wide = tab.evaluate("document.documentElement.scrollWidth")
            found += [f"{scheme}, {width}: as wide as {wide}"] * (wide > width)
            response = Axe().run(tab).response
            assert len(response["passes"]) > 10, "axe has looked at nothing"
            for one in response["violations"]:
                found.append(f"{scheme}, {width}: {one['id']} in {one['nodes'][0]['html'][:200]}")
            tab.close()
    return found


@pytest.mark.parametrize("quick", [False, True])
def test_the_report(browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    stored = unpacked(STORED).results
    groups = [one for env in ("round_stopping_v0", "gossip_bandit_v0") for one in stored.select(env=env)]
    if quick:
        groups = [replace(one, config={**one.config, "replicas": 10}) for one in groups]
    study, store = load_studies()["agents"], Store(tmp_path)
    store.begin([study], {study.name: []}, quick=quick, resume=False)
    monkeypatch.setattr(Store, "results", lambda *_: Results(groups))
    assert violations(browser, write_report(store, tmp_path, [study])) == []


@pytest.mark.parametrize("page", PAGES)
def test_the_docs(browser: "Browser", docs: Path, page: str) -> None:
    assert violations(browser, (docs / page).with_suffix(".html")) == []


def test_that_axe_finds_something(browser: "Browser", tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    text = "<h1>Title</h1><p style='color: #999'>Pale</p><img src='x'>" + "<p>Text</p>" * 10
    page.write_text(f"<!doctype html><html lang=en><title>Bad</title><main>{text}</main>", encoding="utf-8")
    found = violations(browser, page)
    assert {line.split()[2] for line in found} == {"color-contrast", "image-alt"}
