"""`taciturn report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from taciturn.cli.options import Json
from taciturn.cli.output import print_json

if TYPE_CHECKING:
    from taciturn.bench.store import Store
    from taciturn.bench.study import Study


def report(
    folder: Annotated[Path, Argument(help="Folder written by bench or reproduce.")], as_json: Json = False
) -> None:
    """Rewrite the report of a results folder."""
    from taciturn.bench.store import Store

    print_report(Store(folder), None, as_json, {})


def print_report(store: "Store", studies: "list[Study] | None", as_json: bool, about: dict[str, Any]) -> None:
    """Write and print the report of these studies, or of all that the store has planned. Raises StoreError if the
    store's results are not those of its studies."""
    from taciturn.bench.store import StoreError

    if studies is not None:
        _print_report(store, studies, as_json, about)
        return
    try:
        _print_report(store, installed([store]), as_json, about)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise StoreError(
            f"{store.path} has results that this version of its studies cannot report: {type(error).__name__}: {error}"
        ) from error


def installed(stores: "list[Store]") -> "list[Study]":
    """The studies that folders have planned. Raises ValueError if none of them is installed."""
    from taciturn.bench.catalogue import load_studies

    planned = [name for store in stores for name in store.plan()]
    if found := [study for name, study in load_studies().items() if name in planned]:
        return found
    place = stores[0].path
    raise ValueError(
        f"none of the studies in {place} ({', '.join(planned) or 'nothing'}) is installed: taciturn bench module:Study "
        f"--out {place} --resume reports your own"
    )


def _print_report(store: "Store", studies: "list[Study]", as_json: bool, about: dict[str, Any]) -> None:
    from taciturn.bench.report import print_summary, print_tables, write_report
    from taciturn.cli.verify import STORED

    page = write_report(store, store.path, studies, STORED)
    if not as_json:
        # Tables of all studies would fill hundreds of lines; the report has them.
        several = len(studies) > 1 or studies[0].headline
        if several:
            print_summary(store, studies, stored=STORED)
        else:
            print_tables(store, studies)
        print(f"report, with all tables and figures: {page}" if several else f"\nreport: {page}")
        return
    told: dict[str, Any] = {}
    for study in studies:
        results = store.results(study.name)
        groups = [{"config": group.config, "seeds": group.seeds, "metrics": group.metrics} for group in results]
        verdicts = [vars(verdict) for verdict in study.verdicts(results)] if groups else []
        told[study.name] = {"title": study.title, "groups": groups, "verdicts": verdicts}
    print_json(about | {"report": str(page), "studies": told})
