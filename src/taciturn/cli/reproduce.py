"""`taciturn reproduce`."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from taciturn.cli.bench import Out, Yes, confirmed, run_studies
from taciturn.cli.options import with_options_of

EVERYTHING = Path("results/reproduction")


@with_options_of(run_studies)
def reproduce(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="FIGURE",
            help="Figure or table (li2022/4, li2022/table-1), chapter (jiang2020/3) or paper (li2022); default: all.",
        ),
    ] = None,
    out: Out = EVERYTHING,
    yes: Yes = False,
    **options: Any,
) -> None:
    """Reproduce published figures and compare the papers' claims with the results."""
    from taciturn.bench.catalogue import studies_of_figures

    studies = studies_of_figures(names or [])
    if not names and out == EVERYTHING:
        confirmed(studies, options["quick"], yes, "name a figure or a paper (taciturn list figures), or try --quick")
    run_studies(studies, out, **options)
