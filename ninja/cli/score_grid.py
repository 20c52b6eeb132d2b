"""Word error rates of ``ninja score`` for several scales, printed as a table and written as Kaldi's score files."""

from __future__ import annotations

import os

import click

from ninja.errors import OptionError, OutputError
from ninja.evaluate import Grid
from ninja.files.output import text_output
from ninja.lattice import Scales

GRID_FILES_HELP = "Folder for wer_LMWT_PENALTY of all scales and best_wer, like Kaldi's scripts, and wer_grid.tsv."
_COLUMNS = ("lmwt", "word_penalty", "wer", "errors", "words", "ins", "del", "sub", "ser", "best")


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
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot be created: {error.strerror or error}", folder) from error
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
    """Return the inverse acoustic scale as in Kaldi's file names, followed by the LM scale if it is not 1."""
    weight = f"{1.0 / scales.acoustic:.6g}" if scales.acoustic else "inf"
    return weight if scales.lm == 1.0 else f"{weight}_lm{scales.lm:g}"
