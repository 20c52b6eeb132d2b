"""Prepare utterances for rescoring: merge hypotheses with equal text, check words and add the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ninja.errors import NinjaError
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms, LexicalTable
from ninja.lm.word_map import WordMap
from ninja.rescoring.models import Model
from ninja.rescoring.report import RescoreReport, VocabularyCheck
from ninja.rescoring.utterances import ADVICE, Source, Utterance, is_ambiguous, merge_equal_texts


class ContextStage(Protocol):
    """A stage that makes phrases more probable before lattices are rescored, such as ``ninja.context.Contextual``."""

    forms: LexicalForms | None  # the normalizer of the run; set by `Rescorer`

    @property
    def old_model(self) -> Any:
        """The first-pass language model, if it is loaded."""

    def prepare(self, utterance: Utterance, log: RescoreReport) -> None:
        """Add the context to the lattice of an utterance, and set its ``phrases``."""

    def bind(self, words: SymbolTable, log: RescoreReport) -> Any:
        """Load the models for the lattices' words."""

    def class_maps(self, words: SymbolTable, log: RescoreReport) -> Sequence[WordMap]:
        """Return the maps from a symbol table to the words of class models, which may lack any number of words."""

    def over(self, lm: Model) -> Model:
        """Wrap a language model so that it reads phrases; return it unchanged if there is no context model."""


class Preparation(Source):
    """The prepared utterances of a source.

    Args:
        check: Checks the words of all lattices; None if the caller does.
        refuse: Called with each submitted lattice; raises an error if models lack too many of its words.
        forms: Returns the lexical forms of a lattice's words, or None to compare texts as they are written.
    """

    def __init__(
        self,
        source: Source,
        report: RescoreReport,
        scales: Scales,
        *,
        check: VocabularyCheck | None,
        refuse: Callable[[Lattice], None],
        context: ContextStage | None,
        forms: Callable[[Lattice], LexicalTable | None],
    ) -> None:
        super().__init__()
        self._source = source
        self._report = report
        self._scales = scales
        self._check = check
        self._refuse = refuse
        self._context = context
        self._forms = forms

    def _poll(self) -> Utterance | None:
        while (utterance := self._source.poll()) is not None:
            try:
                if not utterance.is_prepared:
                    self._prepare(utterance)
            except BaseException as error:
                if utterance.future is None:
                    raise
                utterance.finish(error=error)
            if not utterance.is_done:
                utterance.is_prepared = True
                return utterance
        if self._source.has_ended and not self.has_ended:
            self.has_ended = True
            if self._check is not None:
                self._check.end_file()
        return None

    def wait(self) -> bool:
        """See `Source.wait`."""
        return self._source.wait()

    def _prepare(self, utterance: Utterance) -> None:
        report = self._report
        table = self._forms(utterance.lattice)
        utterance.lattice, num_merged = merge_equal_texts(utterance.lattice, self._scales, table)
        lattice = utterance.lattice
        if num_merged and not report.merged:
            report.note(
                f"{utterance.key}: {num_merged} hypotheses repeat the text of another; their probabilities are summed"
            )
        report.merged += num_merged
        report.arcs += lattice.num_arcs
        if utterance.future is not None:
            self._refuse(lattice)
        else:
            if ADVICE not in report.notes and is_ambiguous(lattice):
                report.note(ADVICE)
            if self._check is not None:
                self._check.add(lattice)
        if self._context is not None:
            try:
                self._context.prepare(utterance, report)
            except NinjaError as error:
                if utterance.future is not None:
                    raise
                report.fail(error, utterance.key)
                utterance.finish(error=error)
