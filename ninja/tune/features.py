"""Costs of n-best sentences part by part, so that they can be weighed anew without any language model.

The score of a single model follows from the rescored lattice's cost of a sentence; each of several is computed once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from ninja import _search
from ninja.errors import FormatError, LatticeError, NinjaError
from ninja.evaluate import edits
from ninja.graph import best_path, nbest
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, Mixture
from ninja.lm.trie import WordTrie, score_trie
from ninja.lm.word_map import NO_WORD, WordMap
from ninja.log import Log
from ninja.rescoring.options import RescoreOptions

MAX_TOKENS = 500_000  # words scored at once
LEAST_WEIGHT = 0.05  # of a language model whose scores follow from the rescored lattice's: below it, they drown

Keyed = tuple[str, Lattice]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Sentences of some lattices, one behind the other.

    What the models say is kept for each *token*: a word or ``</s>`` where there are several models, which may have to
    be mixed word by word; else a whole sentence.
    """

    lattice: Int64s  # [sentences], number of the lattice each was found in, rising from 0
    errors: Int64s  # [sentences], against the reference
    graph: Doubles  # [sentences], first-pass graph cost
    acoustic: Doubles  # [sentences]
    num_words: Int64s  # [sentences]
    token_begin: Int64s  # [sentences + 1]; tokens of sentence s are token_begin[s] : token_begin[s + 1]
    logprob: Floats  # [models, tokens], penalties of unknown words included
    old_logprob: Floats | None  # [tokens], of the old language model; 0 where `logprob` is less it already
    reference_words: int
    first_pass_errors: int  # of each lattice's best path before it was rescored

    @property
    def num_lattices(self) -> int:
        """Number of lattices; each has a sentence."""
        return int(self.lattice[-1]) + 1 if self.lattice.size else 0

    def of_sentences(self, of_tokens: npt.NDArray[np.floating]) -> Doubles:
        """Sum over each sentence's tokens, along the last axis."""
        return np.add.reduceat(of_tokens, self.token_begin[:-1], axis=-1, dtype=np.float64)


def features(
    lattices: Iterable[Keyed],
    rescored: Callable[[Iterable[Keyed]], Iterator[Keyed]],
    references: Mapping[str, Sequence[str]],
    models: Sequence[LanguageModel | Mixture],
    options: RescoreOptions,
    *,
    old_lm: LanguageModel | Mixture | None = None,
    num_best: int,
    log: Log | None = None,
) -> Features:
    """Take the n best sentences of lattices as `rescored` returns them, with each part of their costs.

    Lattices without a reference are left out. Of paths of the same words the first pass's best gives the costs.
    """
    read: deque[Keyed] = deque()

    def remembered() -> Iterator[Keyed]:
        for key, lattice in lattices:
            if key in references:
                read.append((key, lattice))
                yield key, lattice

    sentences: list[_Sentences] = []
    for key, result in rescored(remembered()):
        while read[0][0] != key:
            read.popleft()  # one that failed
        _, source = read.popleft()
        try:
            sentences.append(_sentences_of(source, result, references[key], options, num_best))
        except NinjaError as error:
            (log or Log()).fail(error)
    if not sentences:
        raise FormatError("no lattice that could be rescored has a reference; do the utterance ids belong together?")
    begin = np.cumsum([0, *chain.from_iterable(np.diff(each.begin) for each in sentences)])
    graph = np.concatenate([each.graph for each in sentences])
    old: Floats | None = None
    if len(models) == 1 and options.lm_weight >= LEAST_WEIGHT:
        kept = graph if old_lm is not None else (1.0 - options.lm_weight) * graph
        new = np.concatenate([each.new for each in sentences])
        token_begin = np.arange(begin.size)
        logprob = ((kept - new) / options.lm_weight).astype(np.float32)[None]
        old = None if old_lm is None else np.zeros(graph.size, np.float32)
    else:
        scored = list(_scored(sentences, [*models, *([] if old_lm is None else [old_lm])], options))
        token_begin = np.cumsum([0, *chain.from_iterable(lengths for lengths, _ in scored)])
        logprob = np.concatenate([each for _, each in scored], axis=1)
        if old_lm is not None:
            logprob, old = logprob[:-1], logprob[-1]
    return Features(
        lattice=np.repeat(np.arange(len(sentences)), [each.errors.size for each in sentences]),
        errors=np.concatenate([each.errors for each in sentences]),
        graph=graph,
        acoustic=np.concatenate([each.acoustic for each in sentences]),
        num_words=np.diff(begin),
        token_begin=token_begin,
        logprob=logprob,
        old_logprob=old,
        reference_words=sum(each.reference_words for each in sentences),
        first_pass_errors=sum(each.first_pass_errors for each in sentences),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Sentences:
    """The sentences of one lattice."""

    words: SymbolTable
    word: Int32s  # ids of the lattice, of all sentences
    begin: Int64s  # [sentences + 1]
    graph: Doubles
    acoustic: Doubles
    new: Doubles  # graph cost in the rescored lattice
    errors: Int64s
    reference_words: int
    first_pass_errors: int


def _sentences_of(
    source: Lattice, rescored: Lattice, reference: Sequence[str], options: RescoreOptions, num_best: int
) -> _Sentences:
    scale, penalty = options.acoustic_scale, options.word_penalty
    words = source.words
    assert words is not None  # it was rescored
    paths = nbest(rescored, num_best, Scales(scale, word_penalty=penalty))
    begin = np.cumsum([0, *(path.words.size for path in paths)])
    word = np.concatenate([path.words for path in paths]).astype(np.int32)
    graph, acoustic = _search.sentence_costs(source, word, begin, scale, penalty)
    if not np.isfinite(graph).all():
        raise LatticeError("a sentence of the rescored lattice is not in the lattice itself", key=source.key)
    said = [-1 if (known := words.id(each)) is None else known for each in reference]  # -1: no word at all
    return _Sentences(
        words,
        word,
        begin,
        graph,
        acoustic,
        new=np.array([path.graph_cost for path in paths]),
        errors=np.array([edits(said, path.words.tolist()) for path in paths]),
        reference_words=len(reference),
        first_pass_errors=edits(said, best_path(source, Scales(scale, word_penalty=penalty)).words.tolist()),
    )


def _scored(
    sentences: Sequence[_Sentences], models: Sequence[LanguageModel | Mixture], options: RescoreOptions
) -> Iterator[tuple[Int64s, Floats]]:
    """Ask every model about batches of lattices; yield tokens of each sentence, and the scores, [models, tokens]."""
    bound: SymbolTable | None = None
    maps: list[WordMap] = []
    for batch in _batches(sentences):
        if batch[0].words is not bound:
            bound = batch[0].words
            look_up = (options.unk_penalty, options.map_words)
            bare = [model.over(bound, *look_up) if isinstance(model, Mixture) else model for model in models]
            maps = [WordMap(bound, model, look_up[0], map_words=look_up[1]) for model in bare]
        begin = np.cumsum([0, *chain.from_iterable(np.diff(each.begin) for each in batch)])
        word = np.concatenate([each.word for each in batch])
        spoken = maps[0].lm_word[word] != NO_WORD
        token_begin = np.concatenate([[0], np.cumsum(spoken)])[begin] + np.arange(begin.size)
        scores = [_logprob(each, word[spoken], token_begin, backward=options.backward) for each in maps]
        yield np.diff(token_begin), np.stack(scores)


def _batches(sentences: Sequence[_Sentences]) -> Iterator[list[_Sentences]]:
    """Group lattices of one symbol table with as many words as are scored at once."""
    batch: list[_Sentences] = []
    num_tokens = 0
    for each in sentences:
        if batch and (num_tokens + each.word.size > MAX_TOKENS or each.words is not batch[0].words):
            yield batch
            batch, num_tokens = [], 0
        batch.append(each)
        num_tokens += each.word.size
    yield batch


def _logprob(words: WordMap, tokens: Int32s, token_begin: Int64s, *, backward: bool) -> Floats:
    """Score words and ``</s>``, float32 [tokens]."""
    ends = token_begin[1:] - 1
    is_end = np.zeros(token_begin[-1], np.bool_)
    is_end[ends] = True
    order = np.arange(token_begin[-1])
    if backward:  # each sentence's words in reverse, </s> where it was
        first = np.repeat(token_begin[:-1], np.diff(token_begin))
        last = np.repeat(ends, np.diff(token_begin)) - 1
        order = np.where(is_end, order, first + last - order)
    asked = np.full(is_end.size, words.lm.eos, np.int32)
    asked[~is_end] = words.lm_word[tokens]
    trie = WordTrie()
    node = trie.add(np.ascontiguousarray(asked[order]), token_begin)
    score = np.empty(is_end.size, np.float32)
    score[order] = score_trie(words.lm, trie.parent, trie.word)[node]
    score[~is_end] -= words.extra[tokens]
    return score
