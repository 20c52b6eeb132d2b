"""Conversion of lattices to the type that a format stores, and detection of lost fields."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ninja.errors import LatticeError, OptionError, SymbolError, counted
from ninja.formats.format import FIELDS, Field, Format, OutputFormat, Write, WriteSettings
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import ListLattice
from ninja.lattice.nbest import NBest, check, with_silence
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.times import state_times

COSTS = {"graph", "acoustic", "apart", "unscaled"}
_ONE_COST = ("costs", "scores")  # format options that can select a single unscaled cost
ASSUMED_SHIFT = 0.01  # default frame shift of all readers, in seconds


def lost_of_lattice(lattice: Lattice, keeps: frozenset[Field]) -> list[str]:
    """Return the names of the lattice fields that a format does not store.

    Times do not count as lost if alignments are stored. The frame shift does not count as lost if neither alignments
    nor times are stored.

    Args:
        lattice: Lattice to examine.
        keeps: Fields that the format stores.
    """
    lost = []
    if isinstance(lattice, ListLattice) and lattice.record and lattice.record.others and "fields" not in keeps:
        lost.append(FIELDS["fields"])
    labelled = lattice.has_labels
    aligned = labelled and "alignments" in keeps
    if labelled and not aligned:
        lost.append(FIELDS["alignments"])
    if lattice.time is not None and not aligned and "times" not in keeps:
        lost.append(FIELDS["times"])
    timed = aligned or ("times" in keeps and (labelled or lattice.time is not None))
    if timed and "frame shift" not in keeps and lattice.frame_shift not in (None, ASSUMED_SHIFT):
        lost.append(FIELDS["frame shift"])
    if lattice.kind == "raw" and "raw" not in keeps:
        lost.append(FIELDS["raw"])
    if keeps >= COSTS:
        return lost
    final = lattice.is_final
    graph = bool(lattice.graph.any() or lattice.final_graph[final].any())
    acoustic = bool(lattice.acoustic.any() or lattice.final_acoustic[final].any())
    return lost + _lost_costs(keeps, graph=graph, acoustic=acoustic, apart=acoustic and "acoustic" in keeps)


def lost_of_list(nbest: NBest, keeps: frozenset[Field]) -> list[str]:
    """Return the names of the n-best list fields that a format does not store; see `lost_of_lattice`."""
    lost = []
    if nbest.record is not None and nbest.record.others and "fields" not in keeps:
        lost.append(FIELDS["fields"])
    hypotheses = nbest.hypotheses
    aligned = (
        all(hypothesis.labels is not None and any(hypothesis.labels) for hypothesis in hypotheses)
        and "alignments" in keeps
    )
    if "alignments" not in keeps and any(
        hypothesis.labels is not None and any(hypothesis.labels) for hypothesis in hypotheses
    ):
        lost.append(FIELDS["alignments"])
    has_seconds = nbest.frame_shift is not None or "frame shift" not in keeps
    if any(hypothesis.begin for hypothesis in hypotheses) and not aligned and not ("times" in keeps and has_seconds):
        lost.append(FIELDS["times"])
    if "times" in keeps and "frame shift" not in keeps and nbest.frame_shift not in (None, ASSUMED_SHIFT):
        lost.append(FIELDS["frame shift"])
    if "word costs" not in keeps and any(
        any(hypothesis.graph[:-1]) or any(hypothesis.acoustic[:-1]) for hypothesis in hypotheses
    ):
        lost.append(FIELDS["word costs"])
    if keeps >= COSTS:
        return lost
    graph = any(hypothesis.graph_cost for hypothesis in hypotheses)
    acoustic = any(hypothesis.acoustic_cost for hypothesis in hypotheses)
    return lost + _lost_costs(keeps, graph=graph, acoustic=acoustic, apart=graph and "graph" in keeps)


def _lost_costs(keeps: frozenset[Field], *, graph: bool, acoustic: bool, apart: bool) -> list[str]:
    """Return the names of the costs that a format does not store.

    Args:
        keeps: Fields that the format stores.
        graph: Whether any graph cost is nonzero.
        acoustic: Whether any acoustic cost is nonzero.
        apart: Whether to report separate graph and acoustic costs as lost if the format stores only their sum.
    """
    lost = [FIELDS["graph"]] if graph and "graph" not in keeps else []
    if acoustic and "acoustic" not in keeps:
        lost.append(FIELDS["acoustic"])
    elif acoustic and not graph and "unscaled" not in keeps:
        lost.append(FIELDS["unscaled"])
    if apart and "apart" not in keeps:
        lost.append(FIELDS["apart"])
    return lost


ALL_PATHS = 100_000  # maximum number of paths if all paths of a lattice are requested
Item = Lattice | NBest | ConfusionNetwork
_INSTEAD = {
    "lattice": "lattices; convert an n-best list with ninja.graph.nbest_lattice",
    "nbest": "lattices and n-best lists",
    "network": "lattices and confusion networks",
}


def converted(item: Item, format: Format, settings: WriteSettings, *, with_names: bool) -> tuple[Any, list[str]]:
    """Convert an item to the type that a format stores.

    Args:
        item: A lattice, or an object of the type that the format stores.
        format: Output format.
        settings: Options of the format, such as the number of hypotheses in a list, and the scales.
        with_names: Add words and times to the hypotheses; set this unless the format stores ids and alignments.

    Returns:
        ``(converted item, names of the lost fields)``.

    Raises:
        OptionError: The item is neither a lattice nor of the type that the format stores.
        LatticeError: The lattice has no path or too many paths, or the list is inconsistent.
        SymbolError: The format stores confusion networks, which require words, and the lattice has only ids.
    """
    if isinstance(item, Lattice):
        if format.holds == "nbest":
            return _list(item if not with_names else _timed(item), settings, with_names=with_names)
        if format.holds == "network":
            return _network(item, settings)
        return item, []
    if isinstance(item, NBest) and format.holds == "nbest":
        item = with_silence(item)
        check(item)
    elif not (isinstance(item, ConfusionNetwork) and format.holds == "network"):
        raise OptionError(f"{format.name} stores {_INSTEAD[format.holds]}")
    return item, []


def _list(lattice: Lattice, settings: WriteSettings, *, with_names: bool) -> tuple[NBest, list[str]]:
    from ninja.graph import lattice_nbest

    options = settings.options
    most = options.most(lattice)
    nbest = lattice_nbest(
        lattice if with_names else lattice.with_words(None),
        most + 1 if most else ALL_PATHS + 1,  # one more path than allowed shows whether paths would be lost
        Scales(options.acoustic_scale, options.lm_scale, options.word_penalty),
    )
    count = len(nbest.hypotheses)
    if not most and count > ALL_PATHS:
        raise LatticeError(f"the lattice has more than {ALL_PATHS} paths; limit their number (n=…)", key=lattice.key)
    if not most or count <= most:
        return nbest, []
    is_whole = options.n is None and isinstance(lattice, ListLattice)
    best = replace(nbest, hypotheses=nbest.hypotheses[:most])
    return best, [] if is_whole else [f"paths beyond the {most} best"]


def _network(lattice: Lattice, settings: WriteSettings) -> tuple[Lattice | ConfusionNetwork, list[str]]:
    from ninja.consensus import lattice_mesh

    options = settings.options
    if settings.words is not None:
        lattice = lattice.with_words(settings.words)
    if lattice.words is None and lattice.word.any():
        raise SymbolError("the lattice contains only word ids; use --words to set a symbol table", key=lattice.key)
    network, is_whole = lattice_mesh(lattice, Scales(options.acoustic_scale, options.lm_scale))
    return network, [] if is_whole else [FIELDS["paths"]]


def _timed(lattice: Lattice) -> Lattice:
    """Return a lattice with times, computed from its alignments if it has none."""
    if lattice.time is not None or not lattice.has_labels:
        return lattice
    try:
        time = np.maximum(state_times(lattice), 0)  # replace the time -1 of unreachable states
    except LatticeError:  # the alignment does not have one label per frame
        return lattice
    return lattice.replace(time=time, frame_shift=lattice.frame_shift or ASSUMED_SHIFT)


def lost_fields(
    item: Item, output_item: Any, keeps: frozenset[Field], write: Write, settings: WriteSettings
) -> list[str]:
    """Return the names of the fields that an output does not store, except the key.

    Args:
        item: The item to write.
        output_item: The item after its conversion to the type that the format stores.
        keeps: Fields that the format stores.
        write: Writer for the format.
        settings: Settings for writing the output.
    """
    lost: list[str] = []
    if isinstance(output_item, NBest):
        lost += lost_of_list(output_item, keeps)
    elif isinstance(item, Lattice) and isinstance(output_item, Lattice):
        lost += lost_of_lattice(item, keeps)
    return lost if write.also_lost is None else lost + write.also_lost(output_item, settings)


def describe_losses(lost: Counter[str]) -> str:
    """Return a message with the lost fields and the number of lattices that lose each field."""
    fields: dict[int, list[str]] = {}
    for field, count in sorted(lost.items()):
        fields.setdefault(count, []).append(field)
    return "; ".join(
        f"{counted(count, 'lattice loses', 'lattices lose')}: {', '.join(names)}"
        for count, names in sorted(fields.items(), reverse=True)
    )


def with_scales(form: OutputFormat, scales: Scales) -> tuple[Mapping[str, str], str | None]:
    """Add scales to the options of a format; return ``(options, note)``, where the note lists added scales or is None.

    Scales that are already among the options take precedence. If the format has no option for the LM scale, the
    acoustic scale is divided by the LM scale.
    """
    format, values = form.format, form.options
    assert format.write is not None
    if format.write.options is None:
        return values, None
    fields = {field.name for field in dataclasses.fields(cast(Any, format.write.options))}
    weights = {"acoustic_scale": scales.acoustic, "lm_scale": scales.lm, "word_penalty": scales.word_penalty}
    has_own = any(name in values for name in weights) or any(values.get(name, "total") != "total" for name in _ONE_COST)
    if "acoustic_scale" not in fields or has_own:
        return values, None
    if "lm_scale" not in fields and scales.lm > 0.0:  # dividing all scales by the LM scale keeps the order of paths
        weights = {"acoustic_scale": scales.acoustic / scales.lm}
    weights = {name: value for name, value in weights.items() if name in fields}
    graph, penalty = weights.get("lm_scale", 1.0), weights.get("word_penalty", 0.0)
    parts = ["graph" if graph == 1.0 else f"{graph:g} graph", f"{weights['acoustic_scale']:g} acoustic"]
    total = " + ".join(parts if penalty == 0.0 else [*parts, f"{penalty:g} per word"])
    subject = "hypotheses are sorted by" if format.holds == "nbest" else "costs are combined as"
    note = f"{subject} {total}; use --to {format.name}:acoustic_scale=… to change the scale"
    return {**values, **{name: repr(value) for name, value in weights.items()}}, note
