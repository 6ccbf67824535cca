"""Progress on stderr, for work that takes a while: a bar on terminals, and elsewhere a line from time to time."""

import contextlib
import threading
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

AFTER_SECONDS = 0.5  # delay of a terminal's bar
EVERY_SECONDS = 30.0  # between lines elsewhere


def stderr() -> Console:
    """A console for messages: no markup, and one line each, of any length."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


class Bar:
    """Items done, time left and the current item."""

    def __init__(self, display: Progress, total: int) -> None:
        self.display = display
        self.done, self.fraction, self.item = 0, 0.0, ""
        self.task = display.add_task("", total=total)

    def running(self, item: str, fraction: float = 0.0) -> None:
        """Show the current item and the fraction of it that is done."""
        self.fraction, self.item = fraction, item
        # The numbers take about 60 columns; the rest is for the item.
        width = max(self.display.console.width - 60, 12)
        shown = item if len(item) <= width else item[: width - 1] + "…"
        self.display.update(self.task, completed=self.done + fraction, description=shown)

    def finished(self, item: str, count: int = 1) -> None:
        """Count one or several finished items."""
        self.done += count
        self.running(item)


@contextlib.contextmanager
def bar(console: Console, total: int, *, shown: bool = True) -> Iterator[Bar]:
    """A bar that appears after half a second; without a terminal, a line every half minute."""
    display = Progress(
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        disable=not (shown and console.is_terminal),
        transient=True,
        speed_estimate_period=3600,
    )
    made, over = Bar(display, total), threading.Event()

    def report() -> None:
        if console.is_terminal:
            if not over.wait(AFTER_SECONDS):
                display.start()
            return
        begun = time.monotonic()
        while not over.wait(EVERY_SECONDS):
            minutes = (time.monotonic() - begun) / 60
            done = made.done + made.fraction
            share = f"{done:.0%}" if total == 1 else f"{round(done, 1):g} of {total}"
            console.print(f"{share} done after {minutes:.1f} minutes{f': {made.item}' * bool(made.item)}")

    teller = threading.Thread(target=report, daemon=True)
    if shown:
        teller.start()
    try:
        yield made
    finally:
        over.set()
        if shown:
            teller.join()
        display.stop()
