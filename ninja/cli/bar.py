"""The progress line of a terminal, drawn by rich; imported when there is one to draw on."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from ninja.files.terminal import printable


class Bar:
    """A progress line: a bar, a percentage and the time left where the whole is known, else a rate.

    Args:
        unit: What is counted.
        by_reading: It is moved as lattices are read, not by their results.
    """

    def __init__(self, unit: str, *, by_reading: bool = False) -> None:
        self.by_reading = by_reading
        self._count = 0
        columns = (SpinnerColumn(), _Share(bar_width=24), _Facts(unit), TextColumn("[dim]{task.description}"))
        self._progress = Progress(
            *columns, console=Terminal(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._progress.add_task("", total=None, count=0)

    def step(self, description: str, count: int | None = None, *, share: float | None = None) -> None:
        """Show one more done, or so many in all.

        Args:
            share: How much of the whole is done, 0 to 1; None: that is not known.
        """
        self._count = self._count + 1 if count is None else count
        shown = printable(description.replace("[", ""))
        total = None if share is None else 1.0  # None leaves what there was
        self._progress.update(self._task, completed=share, total=total, count=self._count, description=shown)

    def say(self, message: str) -> None:
        """Print a line above."""
        self._progress.console.print(printable(message), markup=False, highlight=False, soft_wrap=True)

    def start(self) -> None:
        """Show the line."""
        self._progress.start()

    def stop(self) -> None:
        """Take the line away."""
        self._progress.stop()


class _Share(BarColumn):
    """A bar, where there is a whole."""

    def render(self, task: Task) -> Text:  # type: ignore[override]
        return Text("") if task.total is None else super().render(task)  # type: ignore[return-value]


class _Facts(ProgressColumn):
    """Percentage, count, rate, time and time left."""

    max_refresh = 0.2  # seconds

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        count, seconds = task.fields["count"], task.elapsed or 0.0
        facts = [f"{count} {self._unit}"]
        if task.total is not None:
            facts.insert(0, f"{task.completed:.0%}")
        elif count and seconds:
            facts.append(f"{count / seconds:.3g}/s")
        facts.append(_clock(seconds))
        if task.total is not None and task.completed:
            facts.append(f"{_clock(seconds * (1.0 - task.completed) / task.completed)} left")
        return Text("  ".join(facts))


def _clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))
