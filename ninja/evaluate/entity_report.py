"""Recall, precision and word errors for the entities in a test set, in total and by class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from ninja.errors import OptionError
from ninja.evaluate.error_rate import Counts, ErrorRate, fraction
from ninja.evaluate.phrases import Entity


@dataclass(frozen=True, slots=True)
class Mention:
    """An occurrence of an entity in a reference."""

    key: str  # utterance id
    entity: Entity
    begin: int  # index of the first word of the entity in the reference
    is_correct: bool  # whether the hypothesis contains the words of the entity consecutively
    instead: str  # words of the hypothesis that are aligned with the entity
    words: ErrorRate  # errors in the words of the entity
    found_before: bool | None = None  # whether the entity was found without context; None if unknown
    in_vocabulary: bool | None = None  # whether the symbol table contains all words of the entity; None without a table
    in_form: bool | None = None  # whether the entity was found as written in the list; None without a normalizer


@dataclass(frozen=True, slots=True)
class Insertion:
    """An occurrence of an entity in a hypothesis that corresponds to no occurrence in the reference."""

    key: str  # utterance id
    entity: Entity
    begin: int  # index of the first word of the entity in the hypothesis
    instead_of: str  # words of the reference that are aligned with the entity
    found_before: bool | None = None  # whether the entity was inserted without context; None if unknown
    in_vocabulary: bool | None = None  # whether the symbol table contains all words of the entity; None without a table


Finding = Mention | Insertion


@dataclass(frozen=True, slots=True)
class EntityRate(Counts):
    """Counts of entities, which can be added, as in ``sum(rates, EntityRate())``."""

    mentions: int = 0  # entities in the references
    correct: int = 0  # mentions that the hypotheses contain completely
    inserted: int = 0  # entities in the hypotheses that are not in the references
    words: ErrorRate = field(default_factory=ErrorRate)  # errors in mentions; each mention counts as a sentence
    in_form: int = 0  # correct mentions that are written as in the list; 0 without a normalizer

    @property
    def recall(self) -> float:
        """Percentage of the entities in the references that were found; NaN if there are none."""
        return _percent(self.correct, self.mentions)

    @property
    def precision(self) -> float:
        """Percentage of the entities in the hypotheses that are correct; NaN if there are none."""
        return _percent(self.correct, self.correct + self.inserted)

    @property
    def f_score(self) -> float:
        """Harmonic mean of recall and precision in percent; NaN if there are no entities."""
        return _percent(2 * self.correct, self.mentions + self.correct + self.inserted)

    def __str__(self) -> str:
        """Format the counts as four lines in the style of Kaldi's compute-wer."""
        return (
            f"%RECALL {_percentage(self.recall)} [ {self.correct} / {self.mentions} ]\n"
            f"%PRECISION {_percentage(self.precision)} [ {self.correct} / {self.correct + self.inserted} ]\n"
            f"%F {_percentage(self.f_score)}\n"
            f"%ENTITY-WER {_fraction(self.words)}"
        )


@dataclass(frozen=True, slots=True)
class EntityReport:
    """The entities found, missed and inserted in a test set; reports on different utterances can be added."""

    mentions: tuple[Mention, ...] = ()
    insertions: tuple[Insertion, ...] = ()
    rates: Mapping[str, ErrorRate] = field(default_factory=dict)  # word errors of each utterance
    # Counts of references without a hypothesis, and of hypotheses without a reference.
    absent: ErrorRate = field(default_factory=ErrorRate)

    @property
    def _findings(self) -> tuple[Finding, ...]:
        return (*self.mentions, *self.insertions)

    @property
    def entities(self) -> EntityRate:
        """Total counts over all entities."""
        return _rate(self._findings)

    @property
    def classes(self) -> dict[str, EntityRate]:
        """Counts of the entities in each class, sorted by class name."""
        names = sorted({finding.entity.class_name for finding in self._findings})
        return {
            name: _rate(finding for finding in self._findings if finding.entity.class_name == name) for name in names
        }

    def vocabulary(self, inside: bool) -> EntityRate:
        """Return the counts for in-vocabulary entities or, if `inside` is False, for out-of-vocabulary entities.

        If the entities were scored without a symbol table, all counts are 0.
        """
        return _rate(finding for finding in self._findings if finding.in_vocabulary is inside)

    @property
    def overall(self) -> ErrorRate:
        """Word errors over all utterances."""
        return sum(self.rates.values(), self.absent)

    def of(self, keys: Iterable[str]) -> EntityReport:
        """Return the report for a subset of the utterances; unknown ids are ignored.

        References without a hypothesis, and hypotheses without a reference, are not counted in the result.
        """
        selected = set(keys)
        return EntityReport(
            tuple(mention for mention in self.mentions if mention.key in selected),
            tuple(insertion for insertion in self.insertions if insertion.key in selected),
            {key: rate for key, rate in self.rates.items() if key in selected},
        )

    def contextual(self) -> EntityReport:
        """Return the report for the utterances with an entity in the reference."""
        return self.of({mention.key for mention in self.mentions})

    def general(self) -> EntityReport:
        """Return the report for the utterances without an entity in the reference; insertions are false alarms."""
        return self.of(self.rates.keys() - {mention.key for mention in self.mentions})

    def __add__(self, other: EntityReport) -> EntityReport:
        """Join reports on different utterances."""
        if not isinstance(other, EntityReport):
            return NotImplemented
        if common := self.rates.keys() & other.rates.keys():
            raise OptionError(f"utterance {min(common)!r} is in both reports; add reports of different test sets")
        return EntityReport(
            self.mentions + other.mentions,
            self.insertions + other.insertions,
            {**self.rates, **other.rates},
            self.absent + other.absent,
        )

    def __str__(self) -> str:
        """Format the report: three lines in the format of Kaldi's compute-wer, entity rates, and a class table."""
        lines = [str(self.overall)]
        parts = {"CONTEXTUAL": self.contextual(), "GENERAL": self.general()}
        if all(part.rates for part in parts.values()):
            lines += [f"%{name}-WER {_fraction(part.overall)}" for name, part in parts.items()]
        lines.append(str(self.entities))
        if any(mention.in_form is not None for mention in self.mentions):
            total = self.entities
            share = _percentage(_percent(total.in_form, total.correct))
            lines.append(f"%ENTITY-FORM {share} [ {total.in_form} / {total.correct} ]")
        rows = {name or "(no class)": rate for name, rate in self.classes.items()}
        if any(finding.in_vocabulary is not None for finding in self._findings):
            rows |= {"in vocabulary": self.vocabulary(True), "out of vocabulary": self.vocabulary(False)}
        if rows:
            width = max(map(len, rows))
            lines.append(f"{'':{width}}  said  found  inserted  recall  precision       F  entity WER")
        for name, rate in rows.items():
            recall, precision, f_score = map(_percentage, (rate.recall, rate.precision, rate.f_score))
            lines.append(
                f"{name:{width}}  {rate.mentions:4}  {rate.correct:5}  {rate.inserted:8}  {recall:>6}  {precision:>9}  "
                f"{f_score:>6}  {rate.words.wer:10.2f}"
            )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """Return rates and entities as JSON values.

        Entities in the references are ``recovered`` (found only with context), ``kept`` (found with and without
        context), ``lost`` (found only without context) or ``missed``. If it is unknown which entities are found without
        context, all found entities are ``recovered``. Entities that are not in the references are ``inserted``.
        """
        groups: dict[str, list[object]] = {name: [] for name in ("recovered", "kept", "lost", "missed", "inserted")}
        for mention in self.mentions:
            correct, missed = ("kept", "lost") if mention.found_before else ("recovered", "missed")
            groups[correct if mention.is_correct else missed].append(_finding(mention))
        groups["inserted"] = [_finding(insertion) for insertion in self.insertions]
        return {
            "words": _counts(self.overall),
            "contextual_words": _counts(self.contextual().overall),
            "general_words": _counts(self.general().overall),
            "entities": _figures(self.entities),
            "in_vocabulary": _figures(self.vocabulary(True)),
            "out_of_vocabulary": _figures(self.vocabulary(False)),
            "classes": {name: _figures(rate) for name, rate in self.classes.items()},
            **groups,
        }


def _rate(findings: Iterable[Finding]) -> EntityRate:
    entities = list(findings)
    mentions = [finding for finding in entities if isinstance(finding, Mention)]
    words = sum((mention.words for mention in mentions), ErrorRate())
    num_correct = sum(mention.is_correct for mention in mentions)
    in_form = sum(bool(mention.in_form) for mention in mentions)
    return EntityRate(len(mentions), num_correct, len(entities) - len(mentions), words, in_form)


def _percentage(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _fraction(rate: ErrorRate) -> str:
    return f"{rate.wer:.2f} {fraction(rate.errors, rate.words, rate.insertions, rate.deletions, rate.substitutions)}"


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else math.nan


def _finding(finding: Finding) -> dict[str, object]:
    record: dict[str, object] = {"utt": finding.key, "class": finding.entity.class_name, "text": finding.entity.text}
    record["begin"] = finding.begin
    if isinstance(finding, Mention):
        record |= {"instead": finding.instead, "word_errors": finding.words.errors}
        if finding.in_form is not None:
            record["in_form"] = finding.in_form
    else:
        record |= {"instead_of": finding.instead_of}
        if finding.found_before is not None:
            record["found_before"] = finding.found_before
    if finding.in_vocabulary is not None:
        record["in_vocabulary"] = finding.in_vocabulary
    return record


def _figures(rate: EntityRate) -> dict[str, object]:
    counts = {name: getattr(rate, name) for name in ("mentions", "correct", "inserted")}
    figures = {name: getattr(rate, name) for name in ("recall", "precision", "f_score")}
    defined = {name: None if math.isnan(value) else value for name, value in figures.items()}
    return {**counts, **defined, "words": _counts(rate.words)}


def _counts(rate: ErrorRate) -> dict[str, object]:
    return {**asdict(rate), "wer": rate.wer if math.isfinite(rate.wer) else None}
