"""A class model, a contextual language model, and both together in read sentences, in docs/context.md.

    python -m benchmarks.context combination                       the tables, from the stored measurements
    python -m benchmarks.context combination --measure ../shared   measure the missing cells first

The folder's data/english is described in `benchmarks.context.bed`, data/real in its README.md. Cells are stored in
combination.jsonl beside this file, each with its date, machine, command and CPU seconds; delete a line to measure it
again. The weights of both together are chosen on dev for each length of list, by one rule for both sets: of the weights
with which neither U-WER nor B-WER of a set is above that of the better model alone, those with the lowest sum of WERs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.command import ROOT, command, path_option
from benchmarks.context.bed import LIBRI_PENALTY, LIBRI_SCALE, LM_WEIGHT, Bed, transcripts
from benchmarks.context.pointer import BOOST, PRIOR, SIZES
from benchmarks.tables import Cells, head, put, row
from ninja import read
from ninja.context.augmentation.old_costs import with_unknown
from ninja.context.deep.pointer import ContextPointer
from ninja.context.entities.lists import Entities
from ninja.context.loader import load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import DEFAULT_MODEL, Context
from ninja.context.stage import Contextual
from ninja.evaluate import BiasingList, read_biasing, read_text, score_biased
from ninja.lattice import Lattice
from ninja.lm import LanguageModel, load
from ninja.rescoring import RescoreOptions
from ninja.rescoring.rescorer import Rescorer

STORED = Path(__file__).with_name("combination.jsonl")
COMMAND = "python -m benchmarks.context combination --measure ../shared"
SETS = ("libri", "real")
RATES = {"WER": "wer", "U-WER": "unbiased", "B-WER": "biased"}
LIMITED = ("unbiased", "biased")  # rates of both together that are not above those of the better model
CLASS_MODEL, CONTEXTUAL, BOTH = "class model", "contextual model", "both"
WITHOUT = "both, without the gains"  # the class model alone with the class weight and boost of both
METHODS = (CLASS_MODEL, CONTEXTUAL, BOTH, WITHOUT)
RESCORING = RescoreOptions(acoustic_scale=LIBRI_SCALE, word_penalty=LIBRI_PENALTY, lm_weight=LM_WEIGHT, output="best")
# Tried on dev: weights of the class model, weights of the gains, and boosts by the length of the list.
CLASS_WEIGHTS, CONTEXT_WEIGHTS = (0.5, 0.0, 0.25), (0.5, 0.75, 0.25)
BOOSTS = {100: (4.0, 5.0, 6.0, 3.0, 8.0), 1000: (3.0, 4.0, 5.0, 2.0, 6.0)}


@dataclass(frozen=True, slots=True)
class Trial:
    """A set of sentences, and the models and weights that rescore it."""

    part: str  # dev or test
    sentences: str
    size: int
    method: str
    class_weight: float = 0.0
    context_weight: float = 0.0
    boost: float = 0.0

    @property
    def name(self) -> str:
        """The name of its cell."""
        weights = {
            BOTH: f", {self.class_weight:g}, {self.context_weight:g}, {self.boost:g}",
            WITHOUT: f", {self.class_weight:g}, {self.boost:g}",
        }
        return f"{self.part}, {self.sentences}, {self.size}, {self.method}{weights.get(self.method, '')}"

    @property
    def options(self) -> ContextOptions:
        """The weights and boosts; those of a model alone were chosen on dev."""
        if self.method == CLASS_MODEL:
            return ContextOptions(keyword_boost=BOOST[self.size])
        if self.method == CONTEXTUAL:
            return ContextOptions(context_prior=PRIOR)
        if self.method == WITHOUT:
            return ContextOptions(class_weight=self.class_weight, keyword_boost=self.boost)
        return ContextOptions(
            context_prior=PRIOR,
            class_weight=self.class_weight,
            context_weight=self.context_weight,
            context_boost=self.boost,
        )


def weights(size: int) -> list[tuple[float, float, float]]:
    """Return the weights tried on dev: of the class model, of the gains, and the boost."""
    return list(product(CLASS_WEIGHTS, CONTEXT_WEIGHTS, BOOSTS[size]))


def trials(part: str, size: int, method: str, chosen: tuple[float, float, float] = (0, 0, 0)) -> list[Trial]:
    """Return the trials of both sets of sentences."""
    return [Trial(part, sentences, size, method, *chosen) for sentences in SETS]


def choose(cells: Mapping[str, Mapping[str, float]], size: int) -> tuple[float, float, float]:
    """Return the weights of both models together by the rule above.

    If a rate is above that of the better model with all weights, the smallest excess decides.
    """
    alone = [trials("dev", size, method) for method in (CLASS_MODEL, CONTEXTUAL)]
    limits = [
        {rate: min(cells[trial.name][rate] for trial in models) for rate in LIMITED}
        for models in zip(*alone, strict=True)
    ]

    def rank(values: tuple[float, float, float]) -> tuple[float, float]:
        rates = [cells[trial.name] for trial in trials("dev", size, BOTH, values)]
        excess = [of_set[rate] - limit[rate] for of_set, limit in zip(rates, limits, strict=True) for rate in LIMITED]
        return max(0.0, *excess), sum(of_set["wer"] for of_set in rates)

    return min(weights(size), key=rank)


class Sentences:
    """The lattices, references and lists of both sets of a part."""

    def __init__(self, shared: Path, part: str) -> None:
        self.bed = Bed(shared / "data/english", part)
        folder = shared / "data/real/pocketsphinx" / part
        self._lattices = {
            "libri": self.bed.lattices["libri"],
            "real": list(read(folder / "lat.ark.gz", words=self.bed.words)),
        }
        self._references = {"libri": self.bed.references["libri"], "real": read_text(folder / "text")}
        self._biasing = {
            "libri": self.bed.biasing,
            "real": {size: read_biasing(folder / f"biasing_{size}.jsonl.gz") for size in SIZES},
        }

    def rates(self, trial: Trial, lm: LanguageModel, pointer: ContextPointer) -> dict[str, float]:
        """Return WER, U-WER and B-WER of a trial."""
        has_class_model = trial.method != CONTEXTUAL
        context = Context(
            self._entities(self._biasing[trial.sentences][trial.size]),
            self.bed.class_lm if has_class_model else None,
            options=trial.options,
            context_model=pointer if trial.method in (CONTEXTUAL, BOTH) else None,
        )
        old_lm = with_unknown(self.bed.old_lm) if has_class_model else None
        rescorer = Rescorer(lm, RESCORING, context=Contextual(context, old_lm, LM_WEIGHT), old_lm=old_lm)
        lattices: list[tuple[str, Lattice]] = self._lattices[trial.sentences]
        hypotheses = transcripts(rescorer(iter(lattices)), LIBRI_SCALE, LIBRI_PENALTY)
        rates = score_biased(self._references[trial.sentences], hypotheses, self._biasing[trial.sentences][100])
        return {"wer": rates.overall.wer, "unbiased": rates.unbiased.wer, "biased": rates.biased.wer}

    def _entities(self, lists: dict[str, BiasingList]) -> Entities:
        phrases = {key: {"phrases": list(words.bias)} for key, words in lists.items()}
        return Entities.from_dict({"utterances": phrases}, words=self.bed.words)


def measure(shared: Path, cells: Cells) -> None:
    """Measure the missing cells of dev, then those of test with the chosen weights."""
    import torch

    torch.set_num_threads(1)
    lm, pointer = load(None), load_pointer(DEFAULT_MODEL)

    def add(part: str, planned: Sequence[Trial]) -> None:
        missing = [trial for trial in planned if trial.name not in cells]
        sentences = Sentences(shared, part) if missing else None
        for trial in missing:
            assert sentences is not None
            begin = time.process_time()
            rates = sentences.rates(trial, lm, pointer)
            cells.measured(trial.name, time.process_time() - begin, COMMAND, **rates)

    alone = list(product(SIZES, (CLASS_MODEL, CONTEXTUAL)))
    dev = [trial for size, method in alone for trial in trials("dev", size, method)]
    dev += [trial for size in SIZES for values in weights(size) for trial in trials("dev", size, BOTH, values)]
    add("dev", dev)
    chosen = {size: choose(cells, size) for size in SIZES}
    for part in ("dev", "test"):
        add(
            part,
            [trial for size, method in product(SIZES, METHODS) for trial in trials(part, size, method, chosen[size])],
        )


def table(cells: Cells) -> Iterator[str]:
    """Yield the error rates of each model and of both together."""
    yield from head("sentences", "phrases", "method", *(f"{part} {rate}" for part in ("dev", "test") for rate in RATES))
    for sentences, size, method in product(SETS, SIZES, METHODS):
        rates = [cells[Trial(part, sentences, size, method, *choose(cells, size)).name] for part in ("dev", "test")]
        figures = (f"{rate[name]:.2f}" for rate in rates for name in RATES.values())
        yield row(sentences, f"{size:,}", method, *figures)


def weight_table(cells: Cells) -> Iterator[str]:
    """Yield the chosen weights."""
    yield from head("phrases", "`--class-weight`", "`--context-weight`", "`--context-boost`")
    for size in SIZES:
        yield row(f"{size:,}", *(f"{value:g}" for value in choose(cells, size)))


@command
@path_option("--measure", "shared", metavar="SHARED", help="Folder with data/, to measure missing cells.")
@path_option("--cells", default=STORED, help="Stored measurements.")
@path_option("--output", default=ROOT / "docs/context.md", metavar="PAGE", help="Page to write the tables to.")
def main(shared: Path | None, cells: Path, output: Path) -> None:
    stored = Cells(cells)
    if shared is not None:
        measure(shared, stored)
    put(output, "weights", list(weight_table(stored)))
    put(output, "combination", list(table(stored)))
