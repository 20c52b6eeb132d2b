"""Figures of the entities of a test set: recall, precision and word errors, for all and by class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from ninja.errors import OptionError
from ninja.evaluate.error_rate import Counts, ErrorRate


class Entity(NamedTuple):
    """A phrase of a class."""

    class_name: str  # "@name"; "" without a class
    text: str  # words parted by single blanks


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity of a reference, found or not."""

    key: str  # utterance
    entity: Entity
    begin: int  # place of its first word in the reference, from 0
    found: bool  # all its words stand side by side in the hypothesis
    instead: str  # words of the hypothesis aligned with it; its own text where it was recognised
    words: ErrorRate  # of its words
    found_before: bool | None = None  # in the hypothesis compared with; None: there is none
    in_vocabulary: bool | None = None  # the symbol table holds all its words; None: there is none


@dataclass(frozen=True, slots=True)
class Insertion:
    """An entity of the utterance's lists that stands in the hypothesis more often than in the reference."""

    key: str  # utterance
    entity: Entity
    begin: int  # place of its first word in the hypothesis, from 0
    instead_of: str  # words of the reference aligned with it
    found_before: bool | None = None  # it was inserted in the hypothesis compared with, too; None: there is none
    in_vocabulary: bool | None = None  # the symbol table holds all its words; None: there is none


Finding = Mention | Insertion


@dataclass(frozen=True, slots=True)
class EntityRate(Counts):
    """Counts of entities; add them up, or use ``sum(rates, EntityRate())``."""

    said: int = 0  # mentions in the references
    found: int = 0  # of them, those whole in the hypothesis
    inserted: int = 0  # entities of the lists in the hypotheses, beyond those of the references
    words: ErrorRate = field(default_factory=ErrorRate)  # words of the mentions; its sentences are mentions

    @property
    def recall(self) -> float:
        """Entities found of those in the references, in percent; nan without any."""
        return _percent(self.found, self.said)

    @property
    def precision(self) -> float:
        """Entities found of those in the hypotheses, in percent; nan without any."""
        return _percent(self.found, self.found + self.inserted)

    @property
    def f_score(self) -> float:
        """Harmonic mean of recall and precision, in percent; nan without any entity."""
        return _percent(2 * self.found, self.said + self.found + self.inserted)

    def __str__(self) -> str:
        """Return four lines in the manner of Kaldi's compute-wer."""
        return (
            f"%RECALL {_percentage(self.recall)} [ {self.found} / {self.said} ]\n"
            f"%PRECISION {_percentage(self.precision)} [ {self.found} / {self.found + self.inserted} ]\n"
            f"%F {_percentage(self.f_score)}\n"
            f"%ENTITY-WER {_fraction(self.words)}"
        )


@dataclass(frozen=True, slots=True)
class EntityReport:
    """The entities found, missed and inserted in a test set; reports of different utterances add up."""

    mentions: tuple[Mention, ...] = ()
    insertions: tuple[Insertion, ...] = ()
    rates: Mapping[str, ErrorRate] = field(default_factory=dict)  # word errors of each utterance, all words counted
    absent: ErrorRate = field(default_factory=ErrorRate)  # references and hypotheses that have no partner

    @property
    def _findings(self) -> tuple[Finding, ...]:
        return (*self.mentions, *self.insertions)

    @property
    def entities(self) -> EntityRate:
        """All entities."""
        return _rate(self._findings)

    @property
    def classes(self) -> dict[str, EntityRate]:
        """The entities of each class, in the order of their names."""
        names = sorted({each.entity.class_name for each in self._findings})
        return {name: _rate(each for each in self._findings if each.entity.class_name == name) for name in names}

    def vocabulary(self, inside: bool) -> EntityRate:
        """Return the entities whose words the symbol table holds all, or the others; without a table, none."""
        return _rate(each for each in self._findings if each.in_vocabulary is inside)

    @property
    def overall(self) -> ErrorRate:
        """Word errors of all utterances."""
        return sum(self.rates.values(), self.absent)

    def of(self, keys: Iterable[str]) -> EntityReport:
        """Return the report of some utterances, such as one of several test sets; ids it does not have are ignored."""
        chosen = set(keys)
        return EntityReport(
            tuple(each for each in self.mentions if each.key in chosen),
            tuple(each for each in self.insertions if each.key in chosen),
            {key: rate for key, rate in self.rates.items() if key in chosen},
        )

    def contextual(self) -> EntityReport:
        """Return the report of the utterances whose references hold an entity."""
        return self.of({each.key for each in self.mentions})

    def general(self) -> EntityReport:
        """Return the report of the utterances without an entity in the reference: insertions here are false alarms."""
        return self.of(self.rates.keys() - {each.key for each in self.mentions})

    def __add__(self, other: EntityReport) -> EntityReport:
        """Join the reports of different utterances."""
        if not isinstance(other, EntityReport):
            return NotImplemented
        if twice := self.rates.keys() & other.rates.keys():
            raise OptionError(f"utterance {min(twice)!r} is in both reports; add reports of different test sets")
        return EntityReport(
            self.mentions + other.mentions,
            self.insertions + other.insertions,
            {**self.rates, **other.rates},
            self.absent + other.absent,
        )

    def __str__(self) -> str:
        """Return Kaldi's three lines, those of the entities, and a table of their classes."""
        lines = [str(self.overall)]
        apart = {"CONTEXTUAL": self.contextual(), "GENERAL": self.general()}
        if all(part.rates for part in apart.values()):
            lines += [f"%{name}-WER {_fraction(part.overall)}" for name, part in apart.items()]
        lines.append(str(self.entities))
        rows = {name or "(no class)": rate for name, rate in self.classes.items()}
        if any(each.in_vocabulary is not None for each in self._findings):
            rows |= {"in vocabulary": self.vocabulary(True), "out of vocabulary": self.vocabulary(False)}
        if rows:
            width = max(map(len, rows))
            lines.append(f"{'':{width}}  said  found  inserted  recall  precision       F  entity WER")
        for name, rate in rows.items():
            recall, precision, f_score = map(_percentage, (rate.recall, rate.precision, rate.f_score))
            lines.append(
                f"{name:{width}}  {rate.said:4}  {rate.found:5}  {rate.inserted:8}  {recall:>6}  {precision:>9}  "
                f"{f_score:>6}  {rate.words.wer:10.2f}"
            )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """Return figures and findings as JSON can hold them.

        Entities said are ``recovered`` (found, and not in the hypothesis compared with, if there is one), ``kept``
        (found in both), ``lost`` (found only there) or ``missed`` (found in neither); ``inserted`` are those not said.
        """
        fates: dict[str, list[object]] = {name: [] for name in ("recovered", "kept", "lost", "missed", "inserted")}
        for mention in self.mentions:
            here, there = ("kept", "lost") if mention.found_before else ("recovered", "missed")
            fates[here if mention.found else there].append(_finding(mention))
        fates["inserted"] = [_finding(insertion) for insertion in self.insertions]
        return {
            "words": _counts(self.overall),
            "contextual_words": _counts(self.contextual().overall),
            "general_words": _counts(self.general().overall),
            "entities": _figures(self.entities),
            "in_vocabulary": _figures(self.vocabulary(True)),
            "out_of_vocabulary": _figures(self.vocabulary(False)),
            "classes": {name: _figures(rate) for name, rate in self.classes.items()},
            **fates,
        }


def _rate(findings: Iterable[Finding]) -> EntityRate:
    counted = list(findings)
    mentions = [each for each in counted if isinstance(each, Mention)]
    words = sum((each.words for each in mentions), ErrorRate())
    return EntityRate(len(mentions), sum(each.found for each in mentions), len(counted) - len(mentions), words)


def _percentage(value: float) -> str:
    """Return a figure with two digits, ``-`` where it is not defined."""
    return "-" if math.isnan(value) else f"{value:.2f}"


def _fraction(rate: ErrorRate) -> str:
    return (
        f"{rate.wer:.2f} [ {rate.errors} / {rate.words}, {rate.insertions} ins, {rate.deletions} del, "
        f"{rate.substitutions} sub ]"
    )


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else math.nan


def _finding(finding: Finding) -> dict[str, object]:
    found: dict[str, object] = {"utt": finding.key, "class": finding.entity.class_name, "text": finding.entity.text}
    found["begin"] = finding.begin
    if isinstance(finding, Mention):
        found |= {"instead": finding.instead, "word_errors": finding.words.errors}
    else:
        found |= {"instead_of": finding.instead_of}
        if finding.found_before is not None:
            found["found_before"] = finding.found_before
    if finding.in_vocabulary is not None:
        found["in_vocabulary"] = finding.in_vocabulary
    return found


def _figures(rate: EntityRate) -> dict[str, object]:
    counts = {name: getattr(rate, name) for name in ("said", "found", "inserted")}
    figures = {name: getattr(rate, name) for name in ("recall", "precision", "f_score")}
    defined = {name: None if math.isnan(value) else value for name, value in figures.items()}
    return {**counts, **defined, "words": _counts(rate.words)}


def _counts(rate: ErrorRate) -> dict[str, object]:
    return {**asdict(rate), "wer": rate.wer if math.isfinite(rate.wer) else None}
