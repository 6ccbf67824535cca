"""What is packaged, who may import whom, and what a bare `import taciturn` costs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "taciturn": "src/taciturn",
    "taciturn.bench": "bench",
    "taciturn.envs": "envs",
    "taciturn.policies": "policies",
    "taciturn.wrappers": "wrappers",
}
PAPERS = "papers/src/taciturn_papers"
FLOORS = [
    (
        "taciturn.channels",
        "taciturn.compiling",
        "taciturn.current_folder",
        "taciturn.files",
        "taciturn.graph",
        "taciturn.starting",
        "taciturn.privacy",
        "taciturn.seeding",
        "taciturn.terminal",
        "taciturn.validation",
    ),
    ("taciturn.envs.core",),
    ("taciturn.envs",),
    ("taciturn.wrappers",),
    ("taciturn.policies",),
    ("taciturn",),
    ("taciturn.bench",),
    ("taciturn.cli", "taciturn.testing"),
    ("taciturn.__main__",),
]
HEAVY = ["matplotlib", "networkx", "numba", "pandas", "pyarrow", "pygame", "rich", "scipy", "sklearn", "torch", "typer"]


def modules(folders: Mapping[str, str] = FOLDERS) -> Iterator[tuple[str, Path]]:
    """Every module of taciturn: its dotted name and its file."""
    for package, folder in folders.items():
        base = ROOT / folder
        for file in sorted(base.rglob("*.py")):
            relative = file.relative_to(base).with_suffix("")
            if any((base / parent).is_symlink() for parent in relative.parents):
                continue
            yield ".".join([package, *(part for part in relative.parts if part != "__init__")]), file


MODULES = dict(modules())
OF_PAPERS = dict(modules({"taciturn_papers": PAPERS}))


def floor(module: str) -> int:
    """Height of a module: that of the longest name in FLOORS that it starts with."""
    names = {name: height for height, floor in enumerate(FLOORS) for name in floor}
    return names[max((name for name in names if f"{module}.".startswith(f"{name}.")), key=len)]


@cache
def imported(file: Path) -> list[str]:
    """The modules of taciturn that a file imports, anywhere in it."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES | OF_PAPERS else node.module for name in full]
        else:
            continue
        found += [name for name in names if name.split(".")[0] in ("taciturn", "taciturn_papers")]
    return found


def test_pyproject_lists_every_package() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packages = {module for module, file in MODULES.items() if file.name == "__init__.py"}
    assert set(setup["packages"]) == packages
    assert setup["package-dir"] == {"": "src"} | {name: path for name, path in FOLDERS.items() if name != "taciturn"}
    folders = {module.rpartition(".")[0] for module, file in MODULES.items() if file.name != "__init__.py"}
    assert folders <= packages, "a folder of modules lacks its __init__.py"


def test_every_other_file_of_a_package_is_packaged() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {file.parent for file in MODULES.values() if file.name == "__init__.py"}
    others = {file for folder in folders for file in folder.rglob("*") if file.is_file()}
    others = {file for file in others if file.suffix != ".py" and file.parent.name != "__pycache__"}
    assert any(file.suffix == ".safetensors" for file in others)
    assert not [file for file in others if not any(file.match(pattern) for pattern in setup["package-data"]["*"])]


def test_the_papers_are_a_distribution_of_the_same_version_that_the_suite_does_not_know() -> None:
    import taciturn

    setup = tomllib.loads((ROOT / "papers/pyproject.toml").read_text(encoding="utf-8"))
    assert setup["project"]["version"] == taciturn.__version__
    (needed,) = setup["project"]["dependencies"]
    assert re.fullmatch(rf"taciturn\[[a-z,]*bench[a-z,]*\]=={re.escape(taciturn.__version__)}", needed)
    packages = [module for module, file in OF_PAPERS.items() if file.name == "__init__.py"]
    assert sorted(setup["tool"]["setuptools"]["packages"]) == sorted(packages)
    naming = [module for module, file in MODULES.items() if "taciturn_papers" in file.read_text(encoding="utf-8")]
    assert not naming, "the suite finds studies by entry points alone"


def test_there_is_no_circle() -> None:
    """Imports inside functions count too: a module that needs another at run time depends on it all the same."""
    every = MODULES | OF_PAPERS
    arrows = {module: set(imported(file)) & set(every) - {module} for module, file in every.items()}
    for module in arrows:
        # A package stands for its own exports only: its modules may import one another.
        arrows[module] = {name for name in arrows[module] if not f"{module}.".startswith(f"{name}.")}
    while free := [module for module, targets in arrows.items() if not targets & set(arrows)]:
        for module in free:
            del arrows[module]
    assert not arrows, f"circle among {sorted(arrows)}"


def test_nothing_imports_upwards() -> None:
    found = {
        f"{module} imports {name}"
        for module, file in MODULES.items()
        for name in imported(file)
        if floor(name) > floor(module)
    }
    assert not found, sorted(found)


def test_no_file_and_no_class_is_too_long_to_be_read_at_once() -> None:
    for file in (MODULES | OF_PAPERS).values():
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 500, file
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                assert (node.end_lineno or 0) - node.lineno < 300, f"{node.name} in {file}"


@pytest.mark.parametrize("folder", ["reference", "classic", "learned"])
def test_kinds_of_policies_do_not_import_each_other(folder: str) -> None:
    """What two of them share lies below all three."""
    own = f"taciturn.policies.{folder}"
    others = {f"taciturn.policies.{name}" for name in ("reference", "classic", "learned")} - {own}
    for module, file in MODULES.items():
        if module.startswith(own):
            assert not [name for name in imported(file) if any(name.startswith(other) for other in others)], module


def test_every_generator_is_seeded() -> None:
    unseeded = re.compile(r"(?:default_rng|SeedSequence|PCG64|Philox)\(\s*\)")
    every = MODULES | OF_PAPERS
    found = [module for module, file in every.items() if unseeded.search(file.read_text(encoding="utf-8"))]
    assert not found, found


def test_packages_are_imported_where_they_are_first_named() -> None:
    code = (
        "import taciturn; print(taciturn.policies.PPCL(), taciturn.wrappers.Laplace(1.0), hasattr(taciturn, 'nothing'))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "PPCL(epsilon=3.0, alpha=None) Laplace(epsilon=1.0, sensitivity=None, sampler='fast') False\n"


def test_import_is_light() -> None:
    code = f"import sys, taciturn; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_telling_what_there_is_takes_no_heavy_package() -> None:
    """Several commands, one after another in one process."""
    code = f"""
import sys
from taciturn.cli import main
for words in (["--help"], ["list"], ["list", "studies"], ["list", "policies", "--json"]):
    sys.argv = ["taciturn", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
    heavy = set({HEAVY}) & set(sys.modules) - {{"rich", "typer"}}
    assert not heavy, (words, heavy)
    print("said", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.split() == ["said"] * 4


def test_a_small_run_takes_neither_figures_nor_tables() -> None:
    code = f"""
import sys
from taciturn.cli import main
sys.argv = "taciturn run taciturn/RoundStopping-v0 --policy OneStepLookAhead --seeds 3 --set horizon=10".split()
try:
    main()
finally:
    heavy = set({HEAVY}) | {{"scipy.stats", "scipy.optimize", "scipy.sparse"}}
    print(*sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "rate" in done.stdout
    assert set(done.stderr.split()) <= {"rich", "scipy", "typer"}


def test_constraints_pin_torch_without_a_local_version() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert "torch==2.13.0" in pins
    assert not [pin for pin in pins if "==" not in pin or "+" in pin]


def test_importing_the_package_imports_no_world_and_each_is_found_when_asked_for() -> None:
    code = """
import sys, taciturn
from taciturn import envs
print([name for name in sys.modules if name.startswith("taciturn.envs.") and "core" not in name and "world" in name])
print([name for name in envs.__all__ if not hasattr(envs, name)], hasattr(envs, "nothing"), dir(envs) == envs.__all__)
"""
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == ["[]", "[] False True"]


def test_the_citation_names_this_version() -> None:
    import yaml

    import taciturn

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == taciturn.__version__
    released = re.search(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert released
    assert released[1] == taciturn.__version__
    cited = [f"{one['authors'][0]['family-names'].lower()}{one['year']}" for one in citation["references"]]
    assert sorted(cited) == sorted(file.parent.name for file in (ROOT / PAPERS).glob("*/__init__.py"))
