"""The application: all commands."""

from importlib.metadata import version as version_of
from typing import Annotated

from typer import Exit, Option, Typer

from taciturn.cli.audit import audit
from taciturn.cli.bench import bench
from taciturn.cli.compile import compile_
from taciturn.cli.gather import gather
from taciturn.cli.leaderboard import leaderboard
from taciturn.cli.list import list_
from taciturn.cli.logged import logged
from taciturn.cli.report import report
from taciturn.cli.reproduce import reproduce
from taciturn.cli.run import run
from taciturn.cli.show import show
from taciturn.cli.submit import submit
from taciturn.cli.train import train
from taciturn.cli.verify import verify

app = Typer(
    help="Multi-agent environments for collaborative learning under differential privacy.",
    epilog="--debug shows the traceback of an error.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"taciturn {version_of('taciturn')}")
        raise Exit()


@app.callback()
def common(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options of every command."""


app.command()(show)
app.command("list")(list_)
app.command("compile")(compile_)
for command in (run, train, bench, reproduce, audit, report, gather, submit, leaderboard, verify):
    app.command()(command)
app.add_typer(logged, name="logged")
