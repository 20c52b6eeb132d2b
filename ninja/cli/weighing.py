"""The scales of a verb, for formats that hold one cost, posteriors, or hypotheses in an order."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import click

SCALED = ("scale", "combine")  # verbs that write costs with their scales in them
OF_ONE = ("costs", "scores")  # options of formats that may ask for one cost as it is


def weighed(target: str, to: str | None) -> tuple[str | None, str | None]:
    """Return the format to write with the scales by which the running verb compares paths, and what to say of that.

    Scales that stand in `to` replace those of the verb. A verb without ``--acoustic-scale`` has none.

    Args:
        target: File or folder to write.
        to: The format with its options, as the user wants it; None: by the ending of the target.

    Returns:
        The format with its options, and a note for the user; None: there is nothing to say.

    Raises:
        OptionError: There is no such format.
    """
    from ninja.io.targets import KALDI, format_of

    form, values = format_of(target, to)
    scales = {} if form in KALDI else _scales_of_verb()
    if not scales or any(values.get(name, "total") != "total" for name in OF_ONE):
        return to, None
    from ninja.io.writing.formats import FORMATS

    options = FORMATS[form].options
    fields = {field.name for field in dataclasses.fields(cast(Any, options))}
    if "acoustic_scale" not in fields or any(name in values for name in scales):
        return to, None
    said = _said(scales, fields)
    if "lm_scale" not in fields and scales["lm_scale"] > 0.0:  # paths keep their order
        scales = {"acoustic_scale": scales["acoustic_scale"] / scales["lm_scale"]}
    scales = {name: value for name, value in scales.items() if name in fields}
    values |= {name: repr(value) for name, value in scales.items()}
    what = "hypotheses are in the order of" if FORMATS[form].wants == "nbest" else "costs are joined as"
    note = f"{what} {_sum(scales)}, as {said}; another: --to {form}:acoustic_scale=…"
    return f"{form}:{','.join(f'{name}={value}' for name, value in values.items())}", note


def _scales_of_verb() -> dict[str, float]:
    """Return the scales of the running verb, by the names that formats have for them."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in SCALED or context.params.get("acoustic_scale") is None:
        return {}
    given = context.params
    return {
        "lm_scale": given.get("lm_scale", 1.0),
        "acoustic_scale": given["acoustic_scale"],
        "word_penalty": given.get("word_penalty", 0.0),
    }


def _said(scales: dict[str, float], fields: set[str]) -> str:
    """Say which options of the verb count."""
    names = ["--acoustic-scale"]
    if scales["lm_scale"] != 1.0 and ("lm_scale" in fields or scales["lm_scale"] > 0.0):
        names.append("--lm-scale")
    if scales["word_penalty"] != 0.0 and "word_penalty" in fields:
        names.append("--word-penalty")
    return f"{' and '.join(names)} {'says' if len(names) == 1 else 'say'}"


def _sum(scales: dict[str, float]) -> str:
    """Say what the cost of a path is."""
    graph, penalty = scales.get("lm_scale", 1.0), scales.get("word_penalty", 0.0)
    parts = ["graph" if graph == 1.0 else f"{graph:g} graph", f"{scales['acoustic_scale']:g} acoustic"]
    return " + ".join(parts if penalty == 0.0 else [*parts, f"{penalty:g} for each word"])
