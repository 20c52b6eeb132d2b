"""Preparation of utterances for their rescoring: equal texts merged, words checked, context added."""

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

    forms: LexicalForms | None  # the normalizer of the run, which the rescoring sets

    @property
    def old_model(self) -> Any:
        """The first pass's language model, if it is loaded."""

    def prepare(self, utterance: Utterance, log: RescoreReport) -> None:
        """Add the context to the lattice of an utterance, and set its ``phrases``."""

    def bind(self, words: SymbolTable, log: RescoreReport) -> Any:
        """Load the models for the lattices' words."""

    def class_maps(self, words: SymbolTable, log: RescoreReport) -> Sequence[WordMap]:
        """Return the maps of a symbol table to the words of class models, which may lack any of them."""

    def over(self, lm: Model) -> Model:
        """Return the language model that reads phrases; the same model if there is no context model."""


class Preparation(Source):
    """Utterances of a source with equal texts merged, words checked and context added.

    Args:
        check: Check of the words of all lattices; None if the caller checks them.
        refuse: Raises an error for a submitted lattice with too many words that a model lacks.
        forms: Returns the lexical forms of a lattice's words; None if texts are compared as they are written.
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
                f"{utterance.key}: {num_merged} hypotheses have the text of another one; their probabilities add up"
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
