"""Load the language models for a run, bind them to symbol tables, and check for unknown words."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import Log, ModelError, OptionError, VocabularyError
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import Keyed, bare
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel
from ninja.lm.devices import describe_devices
from ninja.lm.lexical import LexicalLM, merge_forms
from ninja.lm.load import open_model, refuse_unused_classes
from ninja.lm.mixture import How, Mixture, MixtureLM
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.lm.word_map import Coverage, WordMap, added
from ninja.rescoring.options import EngineOptions, Options
from ninja.rescoring.prompts import Prompts

Direction = Literal["forward", "backward"]
Model = LanguageModel | Mixture | None
WordMaps = Callable[[SymbolTable], Sequence[WordMap]]
NEW, OLD = "the language model", "the old language model"
ENOUGH_LATTICES = 100  # number of lattices after which a file can be rejected before it ends


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The language model files used for rescoring.

    If `directions` is empty, the models are mixed in one pass. Otherwise each model rescores the results of the
    previous one, and its weight is the LM weight of its pass.
    """

    models: Sequence[str | os.PathLike[str] | None] = (None,)  # see ninja.lm.load; empty to use only the old model
    old_lm: str | os.PathLike[str] | None = None
    mixture: How = "loglinear"
    weights: Sequence[float] = ()  # one per model  [default: equal; with directions, the LM weight of the options]
    directions: Sequence[Direction] = ()  # direction in which each model reads sentences
    device: str = "auto"  # auto, cpu, cuda, cuda:1, "cuda:0,cuda:1", …
    load_options: LoadOptions = DEFAULTS  # `device` and `words` are ignored

    def __post_init__(self) -> None:
        """Validate the number of weights and directions."""
        for name, values in (("weights", self.weights), ("directions", self.directions)):
            if values and len(values) != len(self.models):
                message = f"the number of {name} is {len(values)}, but must be {len(self.models)}"
                raise OptionError(f"{message}, one per language model")

    def load(
        self, options: Options, words: SymbolTable | None, log: Log, old_lm: Model = None
    ) -> tuple[list[tuple[Model, Options]], Model]:
        """Load the models.

        Args:
            options: Options for every pass. If each model has its own pass, `lm_weight` and `backward` are replaced
                with the weight and the direction of the model, and ``output="best"`` applies only to the last pass.
            words: The lattices' symbol table, for models without a vocabulary.
            log: Log for notes about the devices and about models that use this table.
            old_lm: The old model, if it is already loaded.

        Returns:
            ``(passes, old model)``, with a pair ``(model, options)`` for each pass.

        Raises:
            NinjaError: A model cannot be loaded, or a weight is out of range.
        """
        load_options = replace(self.load_options, device=self.device)
        loaded = [load_model(model, words, log, load_options) for model in self.models]
        if old_lm is None and self.old_lm is not None:
            old_lm = load_model(self.old_lm, words, log, load_options)
        models = [lm for lm in (*loaded, old_lm) if isinstance(lm, LanguageModel)]
        refuse_unused_classes(models, load_options)
        replicas = [replica for lm in models for replica in lm.replicas or (lm,)]
        devices = [replica.device for replica in replicas if replica.device is not None]
        if devices and (note := describe_devices(self.device, devices)) is not None:
            log.note(note)
        if not self.directions:
            if len(loaded) < 2:
                return [(loaded[0] if loaded else None, options)], old_lm
            weights = self.weights or [1 / len(loaded)] * len(loaded)
            names = [str(model or "the shipped model") for model in self.models]
            return [(Mixture(tuple(zip(loaded, weights, strict=True)), self.mixture, names), options)], old_lm
        weights = self.weights or [options.lm_weight] * len(loaded)
        passes = [
            (lm, replace(options, lm_weight=weight, backward=direction == "backward"))
            for lm, weight, direction in zip(loaded, weights, self.directions, strict=True)
        ]
        if options.output == "best":  # applies to the last pass only
            passes[:-1] = [(lm, replace(earlier, output="lattice")) for lm, earlier in passes[:-1]]
        return list(passes), old_lm


def load_model(
    path: str | os.PathLike[str] | None, words: SymbolTable | None, log: Log, options: LoadOptions = DEFAULTS
) -> LanguageModel:
    """Load a model; if it has no vocabulary, use the lattices' symbol table `words`, and add a note to the log."""
    try:
        return open_model(path, options)
    except (ModelError, OptionError) as error:
        if isinstance(error, ModelError) and error.of_run:  # a server needs no symbol table
            raise
        try:
            lm = open_model(path, replace(options, words=words))
        except (ModelError, OptionError) as other:
            # The missing vocabulary was not the cause, or was not the only error.
            raise (other if isinstance(error, OptionError) else error) from None
        log.note(f"{path}: the model has no vocabulary; its word ids are taken from the lattices' symbol table")
        return lm


def check_models(*models: object) -> None:
    """Raise OptionError for a value that is not a language model, such as the name of a file."""
    for lm in models:
        if lm is not None and not isinstance(lm, LanguageModel | Mixture | ModelFiles):
            raise OptionError(f"{lm!r:.60} is not a language model; load a file with ninja.lm.load")


def refuse_words(lm: Model, options: EngineOptions) -> None:
    """Reject a model that scores only whole sentences if the selected algorithm scores words.

    Raises:
        ModelError: The algorithm scores words, but the model can score only whole sentences.
    """
    if options.algorithm is None or lm is None or isinstance(lm, Mixture):
        return
    if lm.whole_sentences and not options.record.scores_sentences:
        raise ModelError(
            f"a masked language model can score only whole sentences, but the algorithm {options.algorithm} scores "
            "words; use nbest"
        )


class BoundModels:
    """The new and the old language model, bound to the words in the lattices.

    The new graph cost of an arc, with the LM weight λ, is

    with both models        graph + λ (−ln p_new + ln p_old)
    with a new model only   (1 − λ) graph + λ (−ln p_new)
    with an old model only  graph + λ ln p_old
    """

    def __init__(
        self,
        lm: Model,
        old_lm: Model,
        options: EngineOptions,
        maps: Sequence[WordMap] = (),
        prompts: Prompts | None = None,
    ) -> None:
        """Combine the new model with the old model, whose weight is -1.

        Args:
            lm: The new model.
            old_lm: The old model.
            options: Options of the pass.
            maps: Word maps from an earlier vocabulary check; without an old model, the map for `lm` is reused.
            prompts: Prompts of the utterances.

        Raises:
            OptionError: There is neither a new nor an old model.
        """
        self._prompts = prompts
        self.graph_share = 1.0 - options.lm_weight if old_lm is None else 1.0
        self.lm_scale = options.lm_weight
        self._options = options
        self._unbound: LanguageModel | Mixture
        if lm is not None and old_lm is not None:
            self._unbound = Mixture(((lm, 1.0), (old_lm, -1.0)), names=(NEW, OLD))
        elif old_lm is not None:
            self._unbound = Mixture(((old_lm, -1.0),), names=(OLD,))
        elif lm is not None:
            self._unbound = lm
        else:
            raise OptionError("there is no language model to rescore with; specify a new or an old language model")
        self._lm: LanguageModel | None = None if isinstance(self._unbound, Mixture) else self._unbound
        self._map = next((word_map for word_map in maps if word_map.lm is self._unbound), None)
        self._parts: Sequence[WordMap] = ()

    def for_threads(self, count: int) -> list[BoundModels]:
        """Return a copy of the bound models for each model in ``lm.for_threads(count)``; call `bind` first."""
        copies = []
        for lm in self.lm.for_threads(count):
            bound = copy.copy(self)
            bound._lm = lm
            if not isinstance(self._unbound, Mixture):
                bound._unbound = lm
            copies.append(bound)
        return copies

    @property
    def lm(self) -> LanguageModel:
        """The model used in the search; if it is a mixture, it exists only after a call to `bind` or `of`."""
        assert self._lm is not None, "no symbol table is known yet"
        return self._lm

    def of(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Map the word of each arc in a lattice to a word of the model.

        Returns:
            ``(ids, costs)``: the model's word id of each arc, -1 for no word, int32 [num_arcs]; and the cost of each
            arc in addition to the model's score, float32 [num_arcs].

        Raises:
            SymbolError: An arc's word id is not in the symbol table.
            VocabularyError: There is no symbol table, or an arc's word is unknown to a model without <unk>.
        """
        if lattice.words is None:
            raise VocabularyError(
                "the lattice has no symbol table; specify the words.txt with which it was created", key=lattice.key
            )
        words_and_costs = self._bound(lattice, lattice.words).of(lattice)
        for part in self._parts:
            part.refuse_unknown(lattice)
        return words_and_costs

    def prompt_ids(self, key: str) -> tuple[int, ...]:
        """Return a tuple with the model's id for the utterance's prompt; the tuple is empty if there is no prompt.

        Raises:
            LatticeError: The utterance is missing from the prompts.
            ModelError: The prompt is too long for the language model.
        """
        text = "" if self._prompts is None else self._prompts.of(key)
        return (self.lm.prompt(text),) if text.strip() and self.lm.takes_prompts else ()

    def carried_words(self, lattice: Lattice, words: npt.NDArray[np.int32]) -> list[int]:
        """Return the word ids that an utterance adds to its recording's history, then ``<s>`` if the model has it.

        With ``<s>``, the model begins the next sentence as in training, but the history still contains this sentence.
        The scores of an n-gram model do not change, because it ignores words before ``<s>``. Unknown words are omitted.

        Args:
            words: Word ids of the best path, in the lattice's symbol table.
        """
        assert lattice.words is not None
        ids = self._bound(lattice, lattice.words).lm_word[words]
        carried = [int(word) for word in ids[ids >= 0]]
        return [*carried, self.lm.bos] if carried and self.lm.bos is not None else carried

    def bind(self, lattices: Iterable[Lattice]) -> None:
        """Bind the models to the symbol table of the first lattice that has one.

        Raises:
            VocabularyError: No lattice has a symbol table.
        """
        named = [lattice for lattice in lattices if lattice.words is not None]
        if not named:
            raise VocabularyError(
                "the lattices have no symbol table; specify the words.txt with which they were created"
            )
        assert named[0].words is not None
        alike = [lattice for lattice in named if lattice.words is named[0].words]
        self._bound(max(alike, key=lambda lattice: int(lattice.word.max(initial=0))), named[0].words)

    def named_models(self) -> list[tuple[str, LanguageModel]]:
        """Return ``(name, model)`` for each model; a mixture is split into its components."""
        unbound = self._unbound
        return [*unbound.named_models()] if isinstance(unbound, Mixture) else [(NEW, unbound)]

    def _bound(self, lattice: Lattice, words: SymbolTable) -> WordMap:
        """Return a map from the symbol table `words` to the model's words that covers all words in the lattice."""
        if self._map is not None and self._map.words is words and self._map.covers(lattice):
            return self._map
        options = self._options
        if not isinstance(self._unbound, Mixture):
            if self._map is not None and self._map.words is words and self._map.lm is self.lm:
                self._map = self._map.grown()
                return self._map
            self._map = WordMap(words, self.lm, options.unk_penalty, map_words=options.map_words)
            return self._map
        if self._lm is None:
            self._lm = self._unbound.over(words, options.unk_penalty, options.map_words)
        assert isinstance(self._lm, MixtureLM)
        self._lm.cover(words)
        self._parts = tuple(self._lm.parts())
        vocabulary = self._lm.vocabulary
        entries = dict(words)
        if vocabulary is not words and vocabulary.ids(entries) != list(entries.values()):
            self._parts = tuple(
                WordMap(words, part.lm, part.unk_penalty, map_words=tuple(part.mapped), name=part.name)
                for part in self._parts
            )
        self._map = WordMap(words, self._lm)
        lms = [lm for _, lm in self.named_models()]
        forms = [lm.forms for lm in lms if isinstance(lm, LexicalLM)]
        if len(forms) == len(lms) and not (normalizer := forms[0].normalizer(words)).is_identity:
            self._map.lm_word = merge_forms(words, self._map.lm_word, normalizer)
        return self._map


def coverage(lattices: Iterable[Lattice], lm: LanguageModel, unk_penalty: float | None = None) -> Coverage:
    """Count arcs with words that are unknown to a language model.

    Args:
        lattices: Lattices that share one symbol table.
        unk_penalty: See ``RescoreOptions``.

    Raises:
        VocabularyError: The first lattice has no symbol table.
    """
    source = bare(lattices)
    first = next(source, None)
    if first is None:
        return Coverage(Counter(), frozenset(), unk_penalty or 0.0)
    if first.words is None:
        raise VocabularyError("the lattices have no symbol table; specify the words.txt with which they were created")
    count = np.zeros(0, np.int64)
    for lattice in chain([first], source):  # reading a lattice can add words to the symbol table
        count = _count_words(count, lattice)
    return WordMap(first.words, lm, unk_penalty).coverage_of(count)


def _count_words(count: npt.NDArray[np.int64], lattice: Lattice) -> npt.NDArray[np.int64]:
    """Count the arcs of a lattice per word id, and add the numbers to `count`.

    Args:
        count: Number of arcs for each word id; changed in place if it is long enough for all word ids.
        lattice: A lattice with a symbol table.

    Returns:
        The new counts: `count` or, if it is too short, a longer array.
    """
    assert lattice.words is not None
    size = int(lattice.word.max(initial=0)) + 1
    if size > count.size:
        count = np.pad(count, (0, max(size, len(lattice.words)) - count.size))
    np.add.at(count, lattice.word, 1)
    return count


class VocabularyCheck:
    """A vocabulary check, which counts words unknown to the models and rejects files with too many unknown words.

    A file is rejected if too many arcs have words that are unknown to a model, or if every lattice contains a word
    that is unknown to a model without <unk>. This is tested after the first hundred lattices and at the end of the
    file. Files that contain a single lattice are tested together, because a single lattice can contain many rare words.

    Args:
        word_maps: Function that returns the map from a symbol table to the words of each model.
        max_unknown: Maximum fraction of arcs with unknown words, 0 to 1.
        cover: Function that is called after each file with each model's coverage of the words in the file.
        other_maps: Function that returns additional maps; their coverage is reported, but not tested.
    """

    def __init__(
        self,
        word_maps: WordMaps,
        max_unknown: float,
        cover: Callable[[Sequence[Coverage]], None],
        *,
        other_maps: WordMaps = lambda words: (),
    ) -> None:
        self._word_maps = word_maps
        self._other_maps = other_maps
        self._max_unknown = max_unknown
        self._cover = cover
        self._words: SymbolTable | None = None
        self._count: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # arcs per word id since `_sum_up`
        self._file: str | None = None
        self._num_lattices = 0  # number of lattices read from the current file
        self._num_judged = 0  # number of models, counted from the first, whose coverage is tested
        self._all_fail = True  # whether every lattice of the file has a word that a model without <unk> lacks
        self._of_file: tuple[Coverage, ...] = ()  # coverage of the words in the current file, one per model
        self._of_single: tuple[Coverage, ...] = ()  # coverages of all files that contain a single lattice

    def __call__(self, lattices: Iterable[Keyed]) -> Iterator[Keyed]:
        """Yield the lattices, and test their words as if the lattices were in one file.

        Raises:
            VocabularyError: Too many words are unknown to a model, or every lattice contains a word that is unknown to
                a model without <unk>.
        """
        for key, lattice in lattices:
            self.add(lattice)
            yield key, lattice
        self.end_file()

    def read(self, inputs: Inputs) -> Iterator[Keyed]:
        """Yield the lattices in the inputs, and test the words in each file.

        Raises:
            VocabularyError: Too many words are unknown to a model, or every lattice contains a word that is unknown to
                a model without <unk>.
        """
        for key, lattice in inputs.lattices():
            self.add(lattice, inputs.file)
            yield key, lattice
        self.end_file()
        if not inputs.is_part:
            self.close()

    def close(self) -> None:
        """Test the words in all files that contain a single lattice, as if these lattices were in one file.

        Raises:
            VocabularyError: Too many words in these files are unknown to a model.
        """
        self._refuse(self._of_single)

    def add(self, lattice: Lattice, file: str | None = None) -> None:
        """Count the words in a lattice.

        If the lattice comes from a new file, `end_file` is called for the previous file first. After the first hundred
        lattices of a file, the words in these lattices are tested.

        Raises:
            VocabularyError: Too many words are unknown to a model, or every lattice contains a word that is unknown to
                a model without <unk>.
        """
        if file != self._file:
            self.end_file()
            self._file = file
        if lattice.words is None:
            return
        if lattice.words is not self._words:
            self._sum_up()
            self._words = lattice.words
        self._count = _count_words(self._count, lattice)
        self._all_fail = self._all_fail and any(
            word_map.unk is None and word_map.unknown_share(lattice) > 0 for word_map in self._word_maps(lattice.words)
        )
        self._num_lattices += 1
        if self._num_lattices == ENOUGH_LATTICES:
            self._sum_up()
            self._refuse(self._of_file, self._file)
            self._refuse_without_unk(self._of_file)

    def _sum_up(self) -> None:
        """Add the counted words to each model's coverage of the current file, and reset the counts."""
        if self._words is not None and self._count.any():
            judged = self._word_maps(self._words)
            self._num_judged = len(judged)
            maps = (*judged, *self._other_maps(self._words))
            self._of_file = added(self._of_file, [word_map.coverage_of(self._count) for word_map in maps])
        self._count = np.zeros(self._count.size, np.int64)

    def end_file(self) -> None:
        """Report the coverage of the words in the current file, and test whether too many are unknown.

        If the file has a name and contains a single lattice, its words are tested by `close` instead.

        Raises:
            VocabularyError: Too many words are unknown to a model, or every lattice contains a word that is unknown to
                a model without <unk>.
        """
        self._sum_up()
        coverages, num_lattices = self._of_file, self._num_lattices
        self._of_file, self._num_lattices = (), 0
        self._cover(coverages)
        if num_lattices == 1 and self._file is not None:
            self._of_single = added(self._of_single, coverages)
        else:
            self._refuse(coverages, self._file)
            self._refuse_without_unk(coverages)
        self._all_fail = True

    def _refuse(self, coverages: Sequence[Coverage], file: str | None = None) -> None:
        for coverage in coverages[: self._num_judged]:
            if coverage.share > self._max_unknown:
                raise unknown_words(coverage, self._max_unknown, file)

    def _refuse_without_unk(self, coverages: Sequence[Coverage]) -> None:
        """Raise `VocabularyError` if a model without <unk> cannot score any lattice in the file."""
        for coverage in coverages[: self._num_judged] if self._all_fail else ():
            if coverage.lacking and not coverage.has_unk:
                raise VocabularyError(f"{coverage.facts}; the model has no <unk>: {coverage.advice}", self._file)


def unknown_words(coverage: Coverage, max_unknown: float, file: str | None = None) -> VocabularyError:
    """Return the error for lattices in which too many words are unknown to a model."""
    return VocabularyError(
        f"{coverage.facts}; this is more than max_unknown = {max_unknown:.0%}: check that the model and the symbol "
        "table match the lattices, or raise max_unknown",
        file,
    )
