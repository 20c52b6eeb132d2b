"""The English test-bed of context, and the methods that are compared on it.

The folder holds {dev,test}/{calls,general,libri}, pools of distractors, words.txt.gz, first_pass.arpa.gz and
class_lm.arpa.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ninja import read
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities
from ninja.context.options import ContextOptions
from ninja.context.settings import Augmentation, Context
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer
from ninja.context.stage import Contextual
from ninja.evaluate import (
    BiasedRate,
    BiasingList,
    read_biasing,
    read_text,
    read_truth,
    score,
    score_entities,
)
from ninja.files.stream import text_of
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, load
from ninja.lm.ngram.model import NgramLM
from ninja.rescoring import RescoreOptions
from ninja.rescoring.rescorer import Rescorer
from ninja.train.confusion import learn, tempered

SCALE, PENALTY = 1 / 12, 1.5  # best on dev/calls without context
LIBRI_SCALE, LIBRI_PENALTY = 0.1, 1.0  # best on dev/libri without context
LM_WEIGHT = 0.6  # of the shipped LSTM
Weights = tuple[float, float, float]  # acoustic scale, word penalty, LM weight
COMMANDS: Weights = (SCALE, PENALTY, 0.3)
READ: Weights = (LIBRI_SCALE, LIBRI_PENALTY, LM_WEIGHT)
PRIOR = 1.0  # of the shipped pointer; chosen on dev
SIZES = (100, 1000)  # lengths of lists of contextual models

Words = dict[str, list[str]]
Keyed = Iterable[tuple[str, Lattice]]


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the tables."""

    name: str
    class_lm: bool = False
    entities: bool = True
    options: ContextOptions = ContextOptions(keyword_boost=0.0)  # noqa: RUF009
    augment: bool = False
    placed: bool = False  # by the class model at their place, with confusion costs learned from errors on dev


class Bed:
    """The test-bed: lattices, references, and the phrases of each utterance."""

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
            name: [json.loads(line) for line in text_of(str(folder / part / name / "entities.jsonl.gz")).splitlines()]
            for name in ("calls", "general")
        }

    def _lattices(self, name: str) -> list[tuple[str, Lattice]]:
        return list(read(self.folder / self.part / name / "lat.ark.gz", words=self.words))

    def entities(self, size: int) -> Entities:
        """Return the lists of all utterances, with `size` phrases each."""
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
        """Return LibriSpeech's biasing lists as phrases of no class."""
        return biasing_entities(self.biasing[size], self.words)

    def learned_confusion(self) -> Path:
        """Return a file of confusion costs learned from read and general sentences of dev."""
        path = Path(self._scratch.name) / "confusion.json"
        if not path.exists():
            pairs = []
            for name in ("libri", "general"):
                part = self.folder / "dev" / name
                reference, hypothesis = read_text(part / "text"), read_text(part / "first_pass_1best")
                pairs += [(words, hypothesis.get(key, [])) for key, words in reference.items()]
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

    def command_figures(self, calls: Words, general: Words, entities: Entities) -> dict[str, float]:
        """Score transcripts of commands with names, and of those without."""
        phrases = {name: entities.phrases(self.references[name]) for name in ("calls", "general")}
        report = score_entities(self.references["calls"], calls, phrases["calls"], truth=self.truth, words=self.words)
        no_entities = dict.fromkeys(self.references["general"], ())
        alarms = score_entities(self.references["general"], general, phrases["general"], truth=no_entities)
        in_vocabulary, out_of_vocabulary = report.vocabulary(True), report.vocabulary(False)
        return {
            "general": score(self.references["general"], general).wer,
            "contextual": score(self.references["calls"], calls).wer,
            "found": in_vocabulary.correct,
            "said": in_vocabulary.mentions,
            "new_found": out_of_vocabulary.correct,
            "new_said": out_of_vocabulary.mentions,
            "precision": report.entities.precision,
            "entity_errors": in_vocabulary.words.errors,
            "entity_words": in_vocabulary.words.words,
            "alarms": alarms.entities.inserted,
        }


def biasing_entities(lists: Mapping[str, BiasingList], words: SymbolTable) -> Entities:
    """Return the words of biasing lists as phrases of no class."""
    phrases = {key: {"phrases": list(entry.bias)} for key, entry in lists.items()}
    return Entities.from_dict({"utterances": phrases}, words=words)


def biased_figures(rate: BiasedRate) -> dict[str, float]:
    """Return WER, U-WER and B-WER."""
    return {"wer": rate.overall.wer, "unbiased": rate.unbiased.wer, "biased": rate.biased.wer}


def rescoring_options(weights: Weights) -> RescoreOptions:
    """Return the options of rescoring to the best path."""
    acoustic, penalty, lm_weight = weights
    return RescoreOptions(acoustic_scale=acoustic, word_penalty=penalty, lm_weight=lm_weight, output="best")


def rescored_words(
    lattices: Keyed, lm: LanguageModel, stage: Contextual, weights: Weights, old_lm: LanguageModel | None = None
) -> Words:
    """Rescore lattices after a stage that adds context; return the words of the best paths."""
    rescorer = Rescorer(lm, rescoring_options(weights), context=stage, old_lm=old_lm)
    return transcripts(rescorer(iter(lattices)), *weights[:2])


def transcripts(lattices: Keyed, scale: float, penalty: float) -> Words:
    """Return the words of the best paths."""
    return {
        key: lattice.words.spell(best_path(lattice, Scales(acoustic=scale, word_penalty=penalty)).words)
        for key, lattice in lattices
    }
