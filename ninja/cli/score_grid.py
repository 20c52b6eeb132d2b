"""Options for several scales, and output of the word error rates as a table and in Kaldi's score files."""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

import click

from ninja.cli.command import Command
from ninja.cli.options import USUAL_SCALE, section
from ninja.cli.source import HEADER, SCALES, as_scales, complete, source_names
from ninja.errors import OptionError
from ninja.evaluate import Grid
from ninja.files.output import reported, text_output
from ninja.io.sources import KEYS
from ninja.lattice import Scales

GRID_FILES_HELP = "Folder for the files wer_LMWT_PENALTY and best_wer of Kaldi's scoring scripts, and for wer_grid.tsv."
_COLUMNS = ("lmwt", "word_penalty", "wer", "errors", "words", "ins", "del", "sub", "ser", "best")
MAX_SCALES = 10_000  # per option


class Numbers(click.ParamType):
    """Parameter type for numbers and integer ranges, separated by commas; ``7:17`` includes 17."""

    name = "numbers"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float, ...]:
        """Convert a list of numbers and ranges, such as ``0.5,7:17``, to a tuple of distinct numbers."""
        if isinstance(value, tuple):
            return value
        numbers: list[float] = []
        try:
            for part in str(value).split(","):
                first, colon, last = part.partition(":")
                numbers += range(int(first), int(last) + 1) if colon else [Spelled(part)]
        except ValueError:
            numbers = []
        if not numbers or len(numbers) > MAX_SCALES:
            expected = f"a list of at most {MAX_SCALES:,} numbers such as 0.5,1 or 7:17"
            self.fail(f"{value!r} is not {expected}", parameter, context)
        return tuple(dict.fromkeys(numbers))


class NumbersOrHeader(Numbers):
    """Parameter type for numbers, or ``header`` for the scales in HTK lattice headers."""

    name = "numbers|header"

    def convert(  # type: ignore[override]
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float | str, ...]:
        """Convert a list to a tuple of distinct numbers, or ``header`` to a tuple that contains only ``header``."""
        return (HEADER,) if value == HEADER else super().convert(value, parameter, context)


class Spelled(float):
    """A number that is printed as the user wrote it."""

    def __new__(cls, text: str) -> Spelled:
        """Parse a number and keep its spelling."""
        number = super().__new__(cls, text)
        number.text = str(text).strip()  # unpickling passes a float
        return number

    text: str

    def __str__(self) -> str:
        return self.text


NUMBERS = Numbers()
GRID = (
    click.option(
        "--acoustic-scale",
        type=NUMBERS,
        default="1.0",
        metavar="NUMBERS",
        help=f"Factors applied to acoustic costs, separated by commas; {USUAL_SCALE}.",
    ),
    click.option(
        "--inv-acoustic-scale",
        "--lmwt",
        type=NUMBERS,
        default="1.0",
        metavar="NUMBERS",
        help="Inverse acoustic scales to try; 7:17 means all integers from 7 to 17.",
    ),
    click.option(
        "--lm-scale",
        type=NumbersOrHeader(),
        default="1.0",
        metavar="NUMBERS|header",
        help="Factors applied to graph costs, or 'header' to use the scales in HTK lattice headers.",
    ),
    click.option(
        "--word-penalty",
        "--word-ins-penalty",
        type=NUMBERS,
        default="0.0",
        metavar="NUMBERS",
        help="Word insertion penalties to try, separated by commas.",
    ),
    SCALES[-1],
)


def grid_of_scales(function: Command) -> Command:
    """Add scale options that accept several values; the command receives them as ``scales``.

    ``scales`` is a tuple with one `Scales` object for each combination of values.
    """

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options.pop(name) for name in KEYS}
        single = {name: values[0] for name, values in user_scales.items() if len(values) == 1}
        completed = complete(context, single, source_names(options))
        user_scales |= {name: (value,) for name, value in completed.values.items()}
        grid = tuple(
            as_scales(dict(zip(user_scales, values, strict=True)))
            for values in itertools.product(*user_scales.values())
        )
        return function(scales=grid, completed_scales=completed, **options)

    return section("Scales", *GRID)(collected)


def print_grid(grid: Grid) -> None:
    """Print a table with a row per inverse acoustic scale (and LM scale) and a column per word penalty."""
    penalties = list(dict.fromkeys(str(scales.word_penalty) for scales in grid.scales))
    rows: dict[str, dict[str, str]] = {}
    for index, (scales, rate) in enumerate(zip(grid.scales, grid.rates, strict=True)):
        mark = "*" if index == grid.best else " "
        rows.setdefault(_row(scales), {})[str(scales.word_penalty)] = f"{rate.wer:.2f}{mark}"
    width = max(map(len, ["LMWT", *rows]))
    if len(penalties) == 1:
        lines = [f"{'LMWT':>{width}}  %WER at word penalty {penalties[0]:<3}"]
    else:
        lines = [f"{'':>{width}}  %WER by word penalty"]
        lines.append(f"{'LMWT':>{width}} " + "".join(f"{penalty:>9} " for penalty in penalties).rstrip())
    for name, cells in rows.items():
        lines.append((f"{name:>{width}} " + "".join(f"{cells[penalty]:>10}" for penalty in penalties)).rstrip())
    best = grid.scales[grid.best]
    lines.append(f"* best: LMWT {_row(best)} (acoustic scale {best.acoustic:.6g}), word penalty {best.word_penalty}")
    click.echo("\n".join(lines))


def write_grid(grid: Grid, folder: str) -> None:
    """Write word error rates to Kaldi's score files and to a TSV table.

    Raises:
        OptionError: Two combinations of scales have the same file name.
        OutputError: A file cannot be written.

    Source: Kaldi, steps/score_kaldi.sh, utils/best_wer.sh.
    """
    names = [f"wer_{_row(scales)}_{scales.word_penalty}" for scales in grid.scales]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise OptionError(f"{folder}: {min(duplicates)} would be written twice; use scales that differ more")
    with reported(folder, "created"):
        os.makedirs(folder, exist_ok=True)
    rows = ["\t".join(_COLUMNS)]
    for index, (scales, name, rate) in enumerate(zip(grid.scales, names, grid.rates, strict=True)):
        with text_output(os.path.join(folder, name)) as file:
            file.write(f"{rate}\n")
        counts = (rate.errors, rate.words, rate.insertions, rate.deletions, rate.substitutions)
        cells = [_row(scales), str(scales.word_penalty), f"{rate.wer:.2f}", *map(str, counts), f"{rate.ser:.2f}"]
        rows.append("\t".join([*cells, "*" if index == grid.best else ""]))
    with text_output(os.path.join(folder, "best_wer")) as file:
        first = str(grid.rates[grid.best]).split("\n")[0]
        file.write(f"{first} {os.path.join(folder, names[grid.best])}\n")
    with text_output(os.path.join(folder, "wer_grid.tsv")) as file:
        file.write("\n".join(rows) + "\n")


def _row(scales: Scales) -> str:
    """Format an inverse acoustic scale as in Kaldi's file names, and append the LM scale unless it is 1."""
    weight = f"{1.0 / scales.acoustic:.6g}" if scales.acoustic else "inf"
    return weight if scales.lm == 1.0 else f"{weight}_lm{scales.lm:g}"
