"""All studies of this package and of other packages, and the published figures that they reproduce, by name."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping

from taciturn.bench import comparisons
from taciturn.bench.study import STUDIES, STUDY_NAMES, Study
from taciturn.plugins import Plugins
from taciturn.registry import UnknownName

STUDY_PLUGINS = Plugins(
    "taciturn.studies",
    STUDY_NAMES,
    "a subclass of taciturn.bench.study.Study of that name",
    lambda found, name: isinstance(found, type) and issubclass(found, Study) and (found.name == name or ":" in name),
    lambda: own_studies(),
)


def own_studies() -> dict[str, Study]:
    """Import every module of `taciturn.bench.comparisons`; return the registered studies by name."""
    for module in pkgutil.iter_modules(comparisons.__path__, f"{comparisons.__name__}."):
        importlib.import_module(module.name)
    return STUDIES


def load_studies() -> dict[str, Study]:
    """The studies by name, including usable ones of other packages."""
    return own_studies() | {name: study() for name, study in STUDY_PLUGINS.load_all().items()}


def studies_named(names: Iterable[str]) -> list[Study]:
    """The studies with these names, or `module:Class`; without names, the standing benchmark. Raises UnknownName."""
    studies = load_studies()
    chosen = list(names) or [name for name, study in studies.items() if study.headline]
    return [studies.get(name) or _study(name, studies) for name in chosen]


def _study(name: str, known: Iterable[str]) -> Study:
    result = STUDY_PLUGINS.find(name)
    if result is None:
        raise UnknownName("study", name, known)
    return result()


def studies_of_figures(names: Iterable[str]) -> list[Study]:
    """The studies that reproduce these figures; without names, all figures.

    Raises:
        UnknownName: no figure has that name.
        ImportError: no installed package reproduces any figure.
    """
    known = figures(load_studies())
    if not known:
        raise no_papers()
    chosen = [figure for name in names for figure in matching(name, known)] or list(known)
    return list({known[figure].name: known[figure] for figure in chosen}.values())


def figures(studies: Mapping[str, Study]) -> dict[str, Study]:
    """`{figure: study}` of every published figure and table."""
    return {figure: study for study in studies.values() for figure in study.figures}


def no_papers() -> ImportError:
    """The error to raise if the papers' studies are needed and not installed."""
    return ImportError("the papers' figures need taciturn-papers: run pip install ./papers in a clone of taciturn")


def matching(name: str, known: Iterable[str]) -> list[str]:
    """The figures that a name selects: one figure, or all of a paper (`chen2021`) or a chapter (`jiang2020/3`). Raises
    UnknownName."""
    known = list(known)
    result = [name] if name in known else [one for one in known if one.startswith((f"{name}/", f"{name}."))]
    if not result:
        same = [one for one in known if one.endswith(f"/{name}")]
        prefixes = {one.partition(mark)[0] for one in known for mark in "/." if mark in one}
        raise UnknownName("figure", name, same or [*known, *prefixes])
    return result
