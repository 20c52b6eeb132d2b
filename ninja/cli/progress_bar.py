"""Progress line on a terminal, drawn by rich; this module is imported only if stderr is a terminal."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.text import Text

from ninja.files.output import printable


class ProgressBar:
    """A line on the terminal that shows the number of completed items and the elapsed time.

    While the total is known, the line also shows a bar, a percentage and the remaining time. Otherwise, it shows the
    number of items per second.

    Args:
        unit: Plural name of the counted items.
        by_reading: Advance the line when lattices are read, rather than when results are available.
    """

    def __init__(self, unit: str, *, by_reading: bool = False) -> None:
        self.by_reading = by_reading
        self._count = 0
        columns = (SpinnerColumn(), _Bar(bar_width=24), _Statistics(unit))
        terminal = Terminal(stderr=True)
        self._progress = Progress(
            *columns,
            console=terminal,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not terminal.is_interactive,  # a dumb terminal cannot redraw a line
        )
        self._task = self._progress.add_task("", total=None, count=0)

    def step(self, description: str, count: int | None = None, *, share: float | None = None) -> None:
        """Advance the progress line by one item, or to a number of completed items.

        Args:
            description: Text at the end of the progress line.
            count: Number of completed items; None adds 1 to the previous number.
            share: Fraction of the total that is complete, in [0, 1]; None if unknown.
        """
        self._count = self._count + 1 if count is None else count
        total = None if share is None else 1.0  # None leaves the total unchanged
        self._progress.update(
            self._task, completed=share, total=total, count=self._count, description=printable(description)
        )

    def say(self, message: str) -> None:
        """Print a message above the progress line."""
        self._progress.console.print(printable(message), markup=False, highlight=False, soft_wrap=True)

    def start(self) -> None:
        """Show the progress line."""
        self._progress.start()

    def stop(self) -> None:
        """Remove the progress line."""
        self._progress.stop()


class _Bar(BarColumn):
    """A bar that is hidden while the total is unknown."""

    def render(self, task: Task) -> Text:  # type: ignore[override]
        return Text("") if task.total is None else super().render(task)  # type: ignore[return-value]


class _Statistics(ProgressColumn):
    """Column of a progress line with the number of completed items, the elapsed time and the description.

    If the total is known, the column also contains the percentage and the remaining time, otherwise the rate. On a
    narrow terminal, the end of the text is omitted.
    """

    max_refresh = 0.2  # seconds

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        count, seconds = task.fields["count"], task.elapsed or 0.0
        columns = [f"{count} {self._unit}"]
        if task.total is not None:
            columns.insert(0, f"{task.completed:.0%}")
        elif count and seconds:
            columns.append(f"{count / seconds:.3g}/s")
        columns.append(_clock(seconds))
        if task.total is not None and task.completed:
            columns.append(f"{_clock(seconds * (1.0 - task.completed) / task.completed)} left")
        text = "  ".join(columns)
        return Text.assemble(f"{text}  ", (task.description, "dim"), no_wrap=True, overflow="ellipsis")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
