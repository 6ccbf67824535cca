"""Every study of the package, and the published figures that they reproduce, by name."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping

from taciturn import plugins
from taciturn.bench.study import STUDIES, Study
from taciturn.registry import UnknownName


def load_studies() -> dict[str, Study]:
    """Import every module of `taciturn.bench.comparisons` and `taciturn.bench.papers`, and those that other packages declare as studies;
    return the registered studies by name."""
    for name in ("taciturn.bench.comparisons", "taciturn.bench.papers"):
        package = importlib.import_module(name)
        for module in sorted(pkgutil.walk_packages(package.__path__, f"{name}."), key=lambda module: module.name):
            importlib.import_module(module.name)
    plugins.load_all("taciturn.studies")
    return STUDIES


def studies_named(names: Iterable[str]) -> list[Study]:
    """The studies of these names; all comparisons if there are none. Raises UnknownName."""
    studies = load_studies()
    chosen = list(names) or [name for name, study in studies.items() if not study.figures]
    for name in chosen:
        if name not in studies:
            raise UnknownName("study", name, studies)
    return [studies[name] for name in chosen]


def studies_of_figures(names: Iterable[str]) -> list[Study]:
    """The studies that reproduce these figures; all figures if there are none. Raises UnknownName."""
    known = figures(load_studies())
    chosen = [figure for name in names for figure in matching(name, known)] or list(known)
    return list({known[figure].name: known[figure] for figure in chosen}.values())


def figures(studies: Mapping[str, Study]) -> dict[str, Study]:
    """`{figure: study}` of every published figure and table."""
    return {figure: study for study in studies.values() for figure in study.figures}


def matching(name: str, known: Iterable[str]) -> list[str]:
    """The figures that a name selects: that figure, or all of a paper (`chen2021`) or a chapter (`jiang2020/3`). Raises UnknownName."""
    known = list(known)
    found = [name] if name in known else [one for one in known if one.startswith((f"{name}/", f"{name}."))]
    if not found:
        same = [one for one in known if one.endswith(f"/{name}")]
        prefixes = {one.partition(mark)[0] for one in known for mark in "/." if mark in one}
        raise UnknownName("figure", name, same or [*known, *prefixes])
    return found
