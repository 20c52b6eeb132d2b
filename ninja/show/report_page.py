"""The page that compares lattices before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninja.show.comparison import Comparison, Outcome, Utterance
from ninja.show.drawing import Drawing
from ninja.show.histogram import changes, depths
from ninja.show.page import SCRIPTS, STYLES, render

LISTED = 40  # missing keys shown


def report_page(
    comparison: Comparison,
    drawings: Mapping[str, tuple[Drawing | None, Drawing | None]] | None = None,
    names: tuple[str, str] = ("before", "after"),
) -> str:
    """Return a page with the error rates, the utterances and their alignments.

    Args:
        comparison: The outcomes of the test set.
        drawings: Lattices before and after that the page shows, by utterance id.
        names: Where the lattices came from.
    """
    drawn = drawings or {}
    before, after = comparison.rates
    utterances, gained, lost = comparison.utterances, len(comparison.gained), len(comparison.lost)
    return render(
        "report.html",
        (*STYLES, "report.css"),
        (*SCRIPTS, "report.js"),
        {
            "utterances": [_row(each) for each in utterances],
            "lattices": {key: [each and each.as_dict() for each in pair] for key, pair in drawn.items()},
        },
        title=f"{names[0]} → {names[1]}",
        names=names,
        before=before,
        after=after,
        rows=_figures(comparison),
        absences=[(each.what, len(each.keys), each.keys[:LISTED]) for each in comparison.absences],
        histograms=list(filter(None, (changes([each.change for each in utterances]), depths(*_depths(comparison))))),
        gained=gained,
        lost=lost,
        same=len(utterances) - gained - lost,
        drawn=len(drawn),
    )


def _row(utterance: Utterance) -> dict[str, Any]:
    def side(outcome: Outcome, pairs: Any, errors: int) -> dict[str, Any]:
        nearest = None if outcome.oracle is None else outcome.oracle.errors
        depth = None if outcome.depth is None else round(outcome.depth, 2)
        return {"pairs": pairs, "errors": errors, "oracle": nearest, "depth": depth, "arcs": outcome.arcs}

    return {
        "key": utterance.key,
        "words": len(utterance.reference),
        "before": side(utterance.before, utterance.alignment_before.pairs, utterance.errors_before),
        "after": side(utterance.after, utterance.alignment_after.pairs, utterance.errors_after),
    }


def _figures(comparison: Comparison) -> list[tuple[str, str, str, str, str]]:
    """Return the rows of the summary: name, before, after, change, and whether that is good, bad or neither."""
    rates, oracles = comparison.rates, comparison.oracle_rates
    rows = [
        _percent("word error rate", *(rate.wer for rate in rates)),
        _percent("sentence error rate", *(rate.ser for rate in rates)),
        _count("word errors", *(rate.errors for rate in rates)),
        _count("substitutions", *(rate.substitutions for rate in rates)),
        _count("insertions", *(rate.insertions for rate in rates)),
        _count("deletions", *(rate.deletions for rate in rates)),
        _percent("oracle word error rate", *(rate.wer for rate in oracles)),
    ]
    depth = _depths(comparison)
    if all(depth):
        before, after = (sum(each) / len(each) for each in depth)
        rows.append(("mean depth", f"{before:.2f}", f"{after:.2f}", _signed(after - before, 2), ""))
    arcs = [(each.before.arcs, each.after.arcs) for each in comparison.utterances]
    before, after = map(sum, zip(*arcs, strict=True))
    rows.append(("arcs", f"{before:,}", f"{after:,}", _signed(after - before, 0), ""))
    return rows


def _depths(comparison: Comparison) -> tuple[list[float], list[float]]:
    """Return the depths of the lattices before and after that have one."""
    sides = zip(*((each.before.depth, each.after.depth) for each in comparison.utterances), strict=True)
    before, after = ([depth for depth in side if depth is not None] for side in sides)
    return before, after


def _percent(name: str, before: float, after: float) -> tuple[str, str, str, str, str]:
    change = _signed(after - before, 2)
    if 0 < before < float("inf"):
        change += f" ({_signed(100 * (after - before) / before, 1)} %)"
    return name, f"{before:.2f} %", f"{after:.2f} %", change, _kind(before, after)


def _count(name: str, before: int, after: int) -> tuple[str, str, str, str, str]:
    return name, f"{before:,}", f"{after:,}", _signed(after - before, 0), _kind(before, after)


def _signed(value: float, digits: int) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else "±"
    return f"{sign}{abs(value):,.{digits}f}"


def _kind(before: float, after: float) -> str:
    return "good" if after < before else "bad" if after > before else ""
