"""Accuracy and costs of context: word errors, entities found and CPU time, by method and number of phrases.

    python -m benchmarks.context tables ../shared/data/english                     the tables of docs/context.md
    python -m benchmarks.context tables ../shared/data/english --pictures docs     and its pictures
    python -m benchmarks.context tables ../shared/data/english --only boosts --pictures docs/pictures

The folder is described in `benchmarks.context.bed`. Choices were made on dev; figures are of test unless --set says
otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.command import argument, command, option, path_option
from benchmarks.context.bed import (
    LIBRI_PENALTY,
    LIBRI_SCALE,
    LM_WEIGHT,
    PENALTY,
    SCALE,
    Bed,
    Method,
    Words,
    biased_figures,
    transcripts,
)
from benchmarks.measure import cpu_seconds, set_torch_threads
from benchmarks.tables import head, row, show
from ninja import rescore
from ninja.context.entities.lists import Entities
from ninja.context.grammar.compile import compile_list
from ninja.context.options import ContextOptions
from ninja.evaluate import score_biased
from ninja.lm import LanguageModel, load
from ninja.rescoring import RescoreOptions
from ninja.tune.plot import COLOURS, MARKERS, drawn_panels

SIZES = (10, 100, 1000, 5000)
BOOST_ALONE = 8.0  # keyword boost without a class model
BOOST = 8.0  # with one, where entering a class costs

METHODS = (
    Method("no context", entities=False),
    Method("n-gram: the class model without phrases", class_lm=True, entities=False),
    Method("boosts, no class model", options=ContextOptions(keyword_boost=BOOST_ALONE)),
    Method("class model", class_lm=True),
    Method("class model + keyword boost", class_lm=True, options=ContextOptions(keyword_boost=BOOST)),
    Method("class model + keyword boost + augmentation", True, True, ContextOptions(keyword_boost=BOOST), True),
    Method("the same, scored at their place", True, True, ContextOptions(keyword_boost=BOOST), True, True),
)


def commands(bed: Bed, method: Method, entities: Entities) -> dict[str, float]:
    """Measure a method on commands with and without names."""
    hypotheses: dict[str, Words] = {}
    start = time.process_time()
    for name in ("calls", "general"):
        stage = bed.contextual(method, entities, method.class_lm, method.class_lm or method.augment)
        hypotheses[name] = transcripts(stage(iter(bed.lattices[name]), None), SCALE, PENALTY)
    seconds = time.process_time() - start
    return bed.command_figures(hypotheses["calls"], hypotheses["general"], entities) | {"seconds": seconds}


def command_table(bed: Bed) -> Iterator[str]:
    """Yield the table of commands."""
    yield from head(
        "method", "phrases", "general WER", "contextual WER", "found, in vocabulary", "found, new words", "precision",
        "errors in entities", "false alarms, general", "CPU s",
    )  # fmt: skip
    base = 0.0
    for method in METHODS:
        for size in SIZES if method.entities else (0,):
            cell = commands(bed, method, bed.entities(size or 10))
            base = base or cell["entity_errors"]
            yield row(
                method.name,
                size or "–",
                f"{cell['general']:.2f}",
                f"{cell['contextual']:.2f}",
                f"{cell['found']:.0f} of {cell['said']:.0f}",
                f"{cell['new_found']:.0f} of {cell['new_said']:.0f}",
                f"{cell['precision']:.1f}",
                f"{cell['entity_errors']:.0f} ({cell['entity_errors'] / base - 1:+.0%})",
                f"{cell['alarms']:.0f}",
                f"{cell['seconds']:.1f}",
            )


def biased(bed: Bed, lm: LanguageModel | None, boost: float, size: int, augment: bool) -> dict[str, float]:
    """Measure boosts on read sentences; return WER, U-WER and B-WER."""
    old_weight = 1.0 if lm is None else 1.0 - LM_WEIGHT
    method = Method("", options=ContextOptions(keyword_boost=boost / old_weight), augment=augment)
    entities = bed.biasing_entities(size or 100)
    lattices = bed.contextual(replace(method, entities=size > 0), entities, False, augment)(
        iter(bed.lattices["libri"]), None
    )
    if lm is not None:
        lattices = rescore(
            lattices,
            lm,
            RescoreOptions(acoustic_scale=LIBRI_SCALE, word_penalty=LIBRI_PENALTY, lm_weight=LM_WEIGHT, output="best"),
        )
    hypotheses = transcripts(lattices, LIBRI_SCALE, LIBRI_PENALTY)
    return biased_figures(score_biased(bed.references["libri"], hypotheses, bed.biasing[100]))


def biased_table(bed: Bed) -> Iterator[str]:
    """Yield the table of read sentences with biasing lists."""
    yield from head("method", "phrases", "WER", "U-WER", "B-WER", "B-WER against none")
    for lm, name in ((None, "first pass"), (load(), "shipped LSTM")):
        base = 0.0
        for size, augment in ((0, False), (100, False), (100, True), (1000, False), (1000, True)):
            rates = biased(bed, lm, BOOST_ALONE if size else 0.0, size, augment)
            base = base or rates["biased"]
            method = f"{name}{' + boosts' if size else ''}{' + augmentation' if augment else ''}"
            yield row(
                method, size or "–", *(f"{rate:.2f}" for rate in rates.values()), f"{rates['biased'] / base - 1:+.1%}"
            )


def cost_table(bed: Bed) -> Iterator[str]:
    """Yield the costs of compiling and of 5,000 phrases; one thread, CPU time."""
    set_torch_threads()
    entities = bed.entities(5000)
    yield from head("cost", "value")
    (name, phrases), *_ = entities.lists.items()
    seconds = cpu_seconds(lambda: compile_list(phrases, bed.words), 5)
    compiled = compile_list(phrases, bed.words)
    yield row(f"compiling {phrases.num_phrases} phrases ({name})", f"{1000 * seconds:.0f} ms")
    yield row("memory of a compiled phrase", f"{compiled.num_bytes / compiled.num_phrases:.0f} bytes")
    lm, options = load(), RescoreOptions(acoustic_scale=SCALE, word_penalty=PENALTY)
    lattices = bed.lattices["calls"]
    for class_lm in (False, True):
        boost = BOOST if class_lm else BOOST_ALONE
        method = Method("", options=ContextOptions(keyword_boost=boost / (1 - options.lm_weight)))
        stage = bed.contextual(method, entities, class_lm, False)
        calls: dict[str, Callable[[], object]] = {
            "stage": lambda stage=stage: list(stage(iter(lattices), None)),
            "plain": lambda: list(rescore(iter(lattices), lm, options)),
            "both": lambda stage=stage: list(rescore(stage(iter(lattices), None), lm, options)),
        }
        calls["stage"]()  # compiles
        pass_seconds, plain, both = map(cpu_seconds, calls.values())
        kind = "with a class model" if class_lm else "boosts alone"
        per_utterance = f"{1000 * pass_seconds / len(lattices):.2f} ms"
        yield row(f"5,000 phrases, {kind}: the pass itself, per utterance", per_utterance)
        values = f"{plain:.2f} s, {both:.2f} s ({both / plain - 1:+.0%})"
        yield row("rescoring with the shipped LSTM, without and with them", values)


SWEEPS = {  # boosts of the class model, in nats: each is changed alone
    "class boost": tuple(ContextOptions(keyword_boost=BOOST, class_boost=float(boost)) for boost in range(-24, 5, 4)),
    "keyword boost": tuple(ContextOptions(keyword_boost=float(boost)) for boost in range(0, 25, 4)),
}


def boost_table(bed: Bed, picture: Path | None) -> Iterator[str]:
    """Yield word errors by the boosts of the class model with 1,000 phrases; draw general against contextual WER."""
    yield from head(
        "class boost", "keyword boost", "general WER", "contextual WER", "found, in vocabulary", "false alarms, general"
    )
    entities, curves = bed.entities(1000), dict[str, list[tuple[float, float]]]()
    for name, sweep in SWEEPS.items():
        for options in sweep:
            cell = commands(bed, Method("", class_lm=True, options=options), entities)
            curves.setdefault(name, []).append((cell["contextual"], cell["general"]))
            mentions = f"{cell['found']:.0f} of {cell['said']:.0f}"
            rates = (f"{cell[rate]:.2f}" for rate in ("general", "contextual"))
            boosts = (f"{boost:g}" for boost in (options.class_boost, options.keyword_boost))
            yield row(*boosts, *rates, mentions, f"{cell['alarms']:.0f}")
    if picture is not None:
        with drawn_panels(picture, ["general WER (%)"], "contextual WER (%)") as [axes]:
            for (name, points), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
                axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=name)


def draw_pictures(bed: Bed, folder: Path) -> None:
    """Draw the curves of docs/context.md."""
    folder.mkdir(parents=True, exist_ok=True)
    class_model, plain_method = METHODS[4], METHODS[2]

    def curves(settings: Mapping[str, Sequence[tuple[float, Method, int]]], path: Path, label: str, scale: str) -> None:
        measured = {
            name: [(x, commands(bed, method, bed.entities(size))) for x, method, size in points]
            for name, points in settings.items()
        }
        titles = {"contextual WER (%)": "contextual", "general WER (%)": "general", "entities found": "found"}
        with drawn_panels(path, list(titles), label) as panels:
            for axes, figure in zip(panels, titles.values(), strict=True):
                for (name, rows), colour, marker in zip(measured.items(), COLOURS, MARKERS, strict=False):
                    values = [cell[figure] for _, cell in rows]
                    axes.plot([x for x, _ in rows], values, color=colour, marker=marker, label=name)
                axes.set_xscale(scale)
                if scale == "log":
                    axes.set_xticks(sorted({x for rows in measured.values() for x, _ in rows}), minor=False)
                    axes.set_xticks([], minor=True)
                    axes.xaxis.set_major_formatter("{x:g}")

    def at(method: Method, **values: float) -> Method:
        return replace(method, options=replace(method.options, **values))

    both = {"class model": class_model, "no class model": plain_method}
    beams = (1, 2, 3, 5, 10, 20)
    curves(
        {name: [(k, at(method, max_tokens=k), 1000) for k in beams] for name, method in both.items()},
        folder / "context_tokens.svg",
        "tokens kept for a word history",
        "log",
    )
    curves(
        {name: [(n, method, n) for n in SIZES] for name, method in {**both, "with augmentation": METHODS[5]}.items()},
        folder / "context_phrases.svg",
        "phrases per utterance",
        "log",
    )
    curves(
        {
            name: [(b, at(method, keyword_boost=float(b)), 1000) for b in range(0, 17, 2)]
            for name, method in both.items()
        },
        folder / "context_boost.svg",
        "keyword boost (nats per word), 1,000 phrases",
        "linear",
    )


@command
@argument("folder")
@option("--set", "part", default="test", type=click.Choice(["dev", "test"]))
@option("--only", type=click.Choice(["commands", "biased", "cost", "boosts"]))
@path_option("--pictures", metavar="FOLDER", help="Also draw the pictures there, with --only boosts that of boosts.")
def main(folder: Path, part: str, only: str | None, pictures: Path | None) -> None:
    bed = Bed(folder, part)
    for name, table in (("commands", command_table), ("biased", biased_table), ("cost", cost_table)):
        if only in (None, name):
            show(table(bed))
            print()
    if only in (None, "boosts"):
        show(boost_table(bed, None if pictures is None else pictures / "context_boosts.svg"))
    if pictures is not None and only is None:
        draw_pictures(bed, pictures)
