"""What context does: word errors, entities found, and what it costs, by method and number of phrases.

    python -m benchmarks.bench_context ../shared/data/english                     the tables of docs/context.md
    python -m benchmarks.bench_context ../shared/data/english --pictures docs     and its pictures

The folder holds {dev,test}/{calls,general,libri}, pools of distractors, words.txt.gz, first_pass.arpa.gz and
class_lm.arpa. Choices were made on dev; figures are of test unless --set says otherwise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ninja import read, rescore
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities
from ninja.context.grammar.compile import compile_list
from ninja.context.options import ContextOptions
from ninja.context.settings import Augmentation, Context
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer
from ninja.context.stage import Contextual
from ninja.evaluate import read_biasing, read_text, read_truth, score, score_biased, score_entities
from ninja.files import text as utf8
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, load
from ninja.lm.ngram.model import NgramLM
from ninja.rescoring import RescoreOptions
from ninja.train.confusion import learn, tempered
from ninja.tune.plot import COLOURS, MARKERS, drawn_panels

SIZES = (10, 100, 1000, 5000)
SCALE, PENALTY = 1 / 12, 1.5  # best on dev/calls without context
LIBRI_SCALE, LIBRI_PENALTY = 0.1, 1.0  # best on dev/libri without context
BOOST_ALONE = 8.0  # keyword boost without a class model
BOOST = 8.0  # with one, where entering a class costs
LM_WEIGHT = 0.6  # of the shipped LSTM

Words = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the tables."""

    name: str
    class_lm: bool = False
    entities: bool = True
    options: ContextOptions = ContextOptions(keyword_boost=0.0)  # noqa: RUF009
    augment: bool = False
    placed: bool = False  # by the class model at their place, with confusion costs learned from errors on dev


METHODS = (
    Method("no context", entities=False),
    Method("n-gram: the class model without phrases", class_lm=True, entities=False),
    Method("boosts, no class model", options=ContextOptions(keyword_boost=BOOST_ALONE)),
    Method("class model", class_lm=True),
    Method("class model + keyword boost", class_lm=True, options=ContextOptions(keyword_boost=BOOST)),
    Method("class model + keyword boost + augmentation", True, True, ContextOptions(keyword_boost=BOOST), True),
    Method("the same, scored at their place", True, True, ContextOptions(keyword_boost=BOOST), True, True),
)


class Bed:
    """The test-bed: lattices, what was said, and which phrases each utterance has."""

    def __init__(self, folder: Path, part: str) -> None:
        self.folder = folder
        self.part = part
        self._scratch = TemporaryDirectory()
        self.words = SymbolTable.read(folder / "words.txt.gz")
        self.class_lm, self.old_lm = load(folder / "class_lm.arpa"), load(folder / "first_pass.arpa.gz")
        assert isinstance(self.class_lm, NgramLM)
        self.lattices = {name: self._lattices(name) for name in ("calls", "general", "libri")}
        self.references = {name: read_text(folder / part / name / "text") for name in self.lattices}
        self.truth = read_truth(folder / part / "calls" / "entities.jsonl.gz")
        self.biasing = {n: read_biasing(folder / part / "libri" / f"biasing_{n}.jsonl.gz") for n in (100, 1000)}
        self._records = {
            name: [json.loads(line) for line in utf8.read(str(folder / part / name / "entities.jsonl.gz")).splitlines()]
            for name in ("calls", "general")
        }

    def _lattices(self, name: str) -> list[tuple[str, Lattice]]:
        return list(read(self.folder / self.part / name / "lat.ark.gz", words=self.words))

    def entities(self, size: int) -> Entities:
        """Return the lists of all utterances, with so many phrases each."""
        lists: dict[str, object] = {}
        utterances: dict[str, object] = {}
        for record in (*self._records["calls"], *self._records["general"]):
            if size <= 100:
                utterances[record["utt"]] = {"entities": record[f"list_{size}"]}
                continue
            name = Path(record["pool_file"]).name
            lists[name] = {"file": str(self.folder / record["pool_file"]), "first": size}
            utterances[record["utt"]] = {"lists": [name], "entities": record["true"]}
        return Entities.from_dict({"lists": lists, "utterances": utterances}, words=self.words)

    def biasing_entities(self, size: int) -> Entities:
        """Return the benchmark's biasing lists as phrases of no class."""
        lists = {key: {"phrases": list(each.bias)} for key, each in self.biasing[size].items()}
        return Entities.from_dict({"utterances": lists}, words=self.words)

    def learned_confusion(self) -> Path:
        """Return a file of confusion costs learned from read and general sentences of dev."""
        path = Path(self._scratch.name) / "confusion.json"
        if not path.exists():
            pairs = []
            for name in ("libri", "general"):
                part = self.folder / "dev" / name
                said, heard = read_text(part / "text"), read_text(part / "first_pass_1best")
                pairs += [(words, heard.get(key, [])) for key, words in said.items()]
            prior = Confusion.articulatory()
            tempered(learn(pairs, Pronouncer.english(), prior, source="dev"), prior).write(path)
        return path

    def contextual(self, method: Method, entities: Entities, class_lm: bool, old_lm: bool) -> Contextual:
        """Return the stage of a method."""
        augmentation = None
        if method.augment:
            options = AugmentOptions(acoustic_scale=SCALE, place_weight=2.0 if method.placed else None)
            augmentation = Augmentation(options, confusion=self.learned_confusion() if method.placed else None)
        context = Context(
            entities if method.entities else Entities.from_dict({}),
            self.class_lm if class_lm else None,
            options=method.options,
            augmentation=augmentation,
        )
        return Contextual(context, self.old_lm if old_lm else None)


def transcripts(lattices: Iterator[tuple[str, Lattice]], scale: float, penalty: float) -> Words:
    """Return the words of the best paths."""
    return {
        key: lattice.words.spell(best_path(lattice, Scales(acoustic=scale, word_penalty=penalty)).words)
        for key, lattice in lattices
    }


def commands(bed: Bed, method: Method, entities: Entities) -> dict[str, float]:
    """Measure a method on commands with names and on those without."""
    found: dict[str, Words] = {}
    start = time.process_time()
    for name in ("calls", "general"):
        stage = bed.contextual(method, entities, method.class_lm, method.class_lm or method.augment)
        found[name] = transcripts(stage(iter(bed.lattices[name]), None), SCALE, PENALTY)
    seconds = time.process_time() - start
    report = score_entities(
        bed.references["calls"],
        found["calls"],
        entities.phrases(bed.references["calls"]),
        truth=bed.truth,
        words=bed.words,
    )
    inside, outside = report.vocabulary(True), report.vocabulary(False)
    nothing = dict.fromkeys(bed.references["general"], ())
    false = score_entities(
        bed.references["general"], found["general"], entities.phrases(bed.references["general"]), truth=nothing
    )
    return {
        "general": score(bed.references["general"], found["general"]).wer,
        "contextual": score(bed.references["calls"], found["calls"]).wer,
        "found": inside.found,
        "said": inside.said,
        "new_found": outside.found,
        "new_said": outside.said,
        "precision": report.entities.precision,
        "entity_errors": inside.words.errors,
        "entity_words": inside.words.words,
        "alarms": false.entities.inserted,
        "seconds": seconds,
    }


def command_table(bed: Bed) -> Iterator[str]:
    """Yield the table of commands."""
    yield (
        "| method | phrases | general WER | contextual WER | found, in vocabulary | found, new words | precision "
        "| errors in entities | false alarms, general | CPU s |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    base = 0.0
    for method in METHODS:
        for size in SIZES if method.entities else (0,):
            row = commands(bed, method, bed.entities(size or 10))
            base = base or row["entity_errors"]
            yield (
                f"| {method.name} | {size or '–'} | {row['general']:.2f} | {row['contextual']:.2f} "
                f"| {row['found']:.0f} of {row['said']:.0f} | {row['new_found']:.0f} of {row['new_said']:.0f} "
                f"| {row['precision']:.1f} | {row['entity_errors']:.0f} ({row['entity_errors'] / base - 1:+.0%}) "
                f"| {row['alarms']:.0f} | {row['seconds']:.1f} |"
            )


def biased(bed: Bed, lm: LanguageModel | None, boost: float, size: int, augment: bool) -> tuple[float, float, float]:
    """Measure boosts on read sentences; WER, U-WER and B-WER."""
    left = 1.0 if lm is None else 1.0 - LM_WEIGHT
    method = Method("", options=ContextOptions(keyword_boost=boost / left), augment=augment)
    entities = bed.biasing_entities(size or 100)
    lattices = bed.contextual(replace(method, entities=size > 0), entities, False, augment)(
        iter(bed.lattices["libri"]), None
    )
    if lm is not None:
        options = RescoreOptions(
            acoustic_scale=LIBRI_SCALE, word_penalty=LIBRI_PENALTY, lm_weight=LM_WEIGHT, output="best"
        )
        lattices = rescore(lattices, lm, options)
    found = transcripts(lattices, LIBRI_SCALE, LIBRI_PENALTY)
    rates = score_biased(bed.references["libri"], found, bed.biasing[100])
    return rates.overall.wer, rates.unbiased.wer, rates.biased.wer


def biased_table(bed: Bed) -> Iterator[str]:
    """Yield the table of read sentences with biasing lists."""
    yield "| method | phrases | WER | U-WER | B-WER | B-WER against none |"
    yield "|---|---|---|---|---|---|"
    for lm, name in ((None, "first pass"), (load(), "shipped LSTM")):
        base = 0.0
        for size, augment in ((0, False), (100, False), (100, True), (1000, False), (1000, True)):
            wer, unbiased, rare = biased(bed, lm, BOOST_ALONE if size else 0.0, size, augment)
            base = base or rare
            what = f"{name} + boosts" if size else name
            yield (
                f"| {what}{' + augmentation' if augment else ''} | {size or '–'} | {wer:.2f} | {unbiased:.2f} "
                f"| {rare:.2f} | {rare / base - 1:+.1%} |"
            )


def cost_table(bed: Bed) -> Iterator[str]:
    """Yield what compiling and 5,000 phrases cost; one thread, CPU time."""
    import torch

    torch.set_num_threads(1)
    entities = bed.entities(5000)
    yield "| what | value |"
    yield "|---|---|"
    (name, phrases), *_ = entities.lists.items()
    seconds = min(_seconds(lambda: compile_list(phrases, bed.words)) for _ in range(5))
    compiled = compile_list(phrases, bed.words)
    yield f"| compiling {phrases.num_phrases} phrases ({name}) | {1000 * seconds:.0f} ms |"
    yield f"| memory of a compiled phrase | {compiled.num_bytes / compiled.num_phrases:.0f} bytes |"
    lm, options = load(), RescoreOptions(acoustic_scale=SCALE, word_penalty=PENALTY)
    lattices = bed.lattices["calls"]
    for class_lm in (False, True):
        boost = BOOST if class_lm else BOOST_ALONE
        method = Method("", options=ContextOptions(keyword_boost=boost / (1 - options.lm_weight)))
        stage = bed.contextual(method, entities, class_lm, False)
        list(stage(iter(lattices), None))  # compiles
        alone = _seconds(lambda stage=stage: list(stage(iter(lattices), None)))
        plain = _seconds(lambda: list(rescore(iter(lattices), lm, options)))
        both = _seconds(lambda stage=stage: list(rescore(stage(iter(lattices), None), lm, options)))
        name = "with a class model" if class_lm else "boosts alone"
        yield f"| 5,000 phrases, {name}: the pass itself, per utterance | {1000 * alone / len(lattices):.2f} ms |"
        more = f"{both / plain - 1:+.0%}"
        yield f"| rescoring with the shipped LSTM, without and with them | {plain:.2f} s, {both:.2f} s ({more}) |"


def _seconds(call: object) -> float:
    start = time.process_time()
    call()  # type: ignore[operator]
    return time.process_time() - start


def pictures(bed: Bed, folder: Path) -> None:
    """Draw the curves of docs/context.md."""
    folder.mkdir(parents=True, exist_ok=True)
    class_model, alone = METHODS[4], METHODS[2]

    def curves(settings: Mapping[str, Sequence[tuple[float, Method, int]]], path: Path, label: str, scale: str) -> None:
        measured = {
            name: [(x, commands(bed, method, bed.entities(size))) for x, method, size in points]
            for name, points in settings.items()
        }
        titles = {"contextual WER (%)": "contextual", "general WER (%)": "general", "entities found": "found"}
        with drawn_panels(path, list(titles), label) as panels:
            for axes, what in zip(panels, titles.values(), strict=True):
                for (name, rows), colour, marker in zip(measured.items(), COLOURS, MARKERS, strict=False):
                    values = [row[what] for _, row in rows]
                    axes.plot([x for x, _ in rows], values, color=colour, marker=marker, label=name)
                axes.set_xscale(scale)
                if scale == "log":
                    axes.set_xticks(sorted({x for rows in measured.values() for x, _ in rows}), minor=False)
                    axes.set_xticks([], minor=True)
                    axes.xaxis.set_major_formatter("{x:g}")

    def at(method: Method, **changed: float) -> Method:
        return replace(method, options=replace(method.options, **changed))

    both = {"class model": class_model, "no class model": alone}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", default="test", choices=["dev", "test"])
    parser.add_argument("--only", choices=["commands", "biased", "cost"])
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    bed = Bed(arguments.folder, arguments.set)
    for name, table in (("commands", command_table), ("biased", biased_table), ("cost", cost_table)):
        if arguments.only in (None, name):
            for line in table(bed):
                print(line, flush=True)
            print()
    if arguments.pictures is not None:
        pictures(bed, arguments.pictures)


if __name__ == "__main__":
    main()
