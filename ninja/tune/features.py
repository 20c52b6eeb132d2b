"""Cost components of n-best sentences, which can be reweighted without running language models again.

With a single model, the score of a sentence is computed from its cost in the rescored lattice. With several models,
each model scores each sentence once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _search
from ninja.errors import FormatError, LatticeError, Log, NinjaError
from ninja.graph import best_path, nbest
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import offsets, runs
from ninja.lattice.batch import Keyed
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms
from ninja.lm import LanguageModel, Mixture
from ninja.lm.trie import WordTrie, score_trie
from ninja.lm.word_map import NO_WORD, WordMap
from ninja.rescoring.algorithms import RescoreOptions
from ninja.tune.word_errors import Reference, check_words

MAX_TOKENS = 500_000  # maximum number of words per batch of lattices
LEAST_WEIGHT = 0.05  # LM weight below which scores cannot be recovered from the costs of the rescored lattice

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The n-best sentences from several lattices, with their costs and errors.

    Models have one score per *token*. With several models, which can be mixed word by word, a token is a word or
    ``</s>``. With a single model, a token is a whole sentence.
    """

    keys: tuple[str, ...]  # keys of the lattices
    lattice: Int64s  # [sentences], number of the lattice, increasing from 0
    errors: Int64s  # [sentences], number of errors
    graph: Doubles  # [sentences], first-pass graph cost
    acoustic: Doubles  # [sentences]
    num_words: Int64s  # [sentences]
    word: Int32s  # [words of all sentences], ids in the lattice's symbol table
    token_begin: Int64s  # [sentences + 1]; tokens of sentence s are token_begin[s] : token_begin[s + 1]
    logprob: Floats  # [models, tokens], including penalties of unknown words
    old_logprob: Floats | None  # [tokens], scores of the old language model; 0 if already subtracted from `logprob`
    reference_words: Int64s  # [lattices]
    first_pass_errors: Int64s  # [lattices], errors of the best paths before rescoring, without word penalty
    rescored_errors: Int64s  # [lattices], errors of the best paths after the latest rescoring

    @property
    def num_lattices(self) -> int:
        """Number of lattices."""
        return len(self.keys)

    def of_sentences(self, of_tokens: npt.NDArray[np.floating]) -> Doubles:
        """Sum token values over each sentence, along the last axis."""
        return np.add.reduceat(of_tokens, self.token_begin[:-1], axis=-1, dtype=np.float64)

    def wer(self, errors: Int64s) -> float:
        """Compute the word error rate in percent from the number of errors in each lattice."""
        return 100.0 * int(errors.sum()) / max(int(self.reference_words.sum()), 1)

    def united(self, earlier: Features) -> Features:
        """Return a copy that also contains the n-best sentences from an earlier rescoring of the same lattices.

        Duplicates, and sentences of lattices that are only in `earlier`, are not added. The order of the lattices must
        be the same in both rescorings.
        """
        number = {key: place for place, key in enumerate(self.keys)}
        numbers = np.array([number.get(key, -1) for key in earlier.keys], np.int64)
        texts, earlier_texts = _sentence_texts(self), _sentence_texts(earlier)
        is_new: list[bool] = []
        for earlier_place, place in enumerate(numbers.tolist()):
            new_texts = set(texts(place)) if place >= 0 else None
            is_new += [new_texts is not None and text not in new_texts for text in earlier_texts(earlier_place)]
        new = np.array(is_new, np.bool_)
        lattice = numbers[earlier.lattice[new]]
        end = np.searchsorted(
            self.lattice, lattice, side="right"
        )  # new sentences follow the other sentences of their lattice
        added = np.insert(np.zeros(self.lattice.size, np.bool_), end, True)

        def merged(name: str) -> npt.NDArray[Any]:
            return _merge(getattr(self, name), getattr(earlier, name)[new], added)

        num_words = merged("num_words")
        earlier_tokens = np.diff(earlier.token_begin)
        num_tokens = _merge(np.diff(self.token_begin), earlier_tokens[new], added)
        new_token, added_token = np.repeat(new, earlier_tokens), np.repeat(added, num_tokens)
        old, earlier_old = self.old_logprob, earlier.old_logprob
        return replace(
            self,
            lattice=_merge(self.lattice, lattice, added),
            errors=merged("errors"),
            graph=merged("graph"),
            acoustic=merged("acoustic"),
            num_words=num_words,
            word=_merge(self.word, earlier.word[np.repeat(new, earlier.num_words)], np.repeat(added, num_words)),
            token_begin=offsets(num_tokens),
            logprob=_merge(self.logprob, earlier.logprob[:, new_token], added_token),
            old_logprob=None
            if old is None or earlier_old is None
            else _merge(old, earlier_old[new_token], added_token),
        )


def _merge(values: npt.NDArray[Any], added: npt.NDArray[Any], is_added: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Merge two arrays along the last axis; `is_added` marks the elements of the result that are from `added`."""
    merged = np.empty((*values.shape[:-1], is_added.size), values.dtype)
    merged[..., is_added], merged[..., ~is_added] = added, values
    return merged


def _sentence_texts(sentences: Features) -> Callable[[int], list[bytes]]:
    """Return a function that takes the number of a lattice and returns the word ids of its sentences as bytes."""
    first = np.searchsorted(sentences.lattice, np.arange(sentences.num_lattices + 1))
    begin = offsets(sentences.num_words)

    def texts(lattice: int) -> list[bytes]:
        return [part.tobytes() for part in runs(sentences.word, begin[first[lattice] : first[lattice + 1] + 1])]

    return texts


def features(
    lattices: Iterable[Keyed],
    rescored: Callable[[Iterable[Keyed]], Iterator[Keyed]],
    references: Mapping[str, Sequence[str]],
    models: Sequence[LanguageModel | Mixture],
    options: RescoreOptions,
    *,
    old_lm: LanguageModel | Mixture | None = None,
    num_best: int,
    lm_scale: float = 1.0,
    forms: LexicalForms | None = None,
    log: Log | None = None,
) -> Features:
    """Collect the n best sentences from the lattices that `rescored` returns, with their cost components.

    Lattices without a reference are ignored. The costs of a sentence are the first-pass costs of the best path with its
    words. Without models, the sentences are taken from the first pass, and graph costs are multiplied by `lm_scale`.
    """
    pending: deque[Keyed] = deque()

    def tracked() -> Iterator[Keyed]:
        for key, lattice in lattices:
            if key in references:
                pending.append((key, lattice))
                yield key, lattice

    scales = replace(options.scales, lm=lm_scale)
    keys: list[str] = []
    sentences: list[_Sentences] = []
    for key, result in rescored(tracked()):
        while pending[0][0] != key:
            pending.popleft()  # this lattice was skipped because of an error
        _, source = pending.popleft()
        try:
            sentences.append(_sentences_of(source, result, references[key], forms or LexicalForms(), scales, num_best))
        except NinjaError as error:
            (log or Log()).fail(error, key)
            continue
        keys.append(key)
    if not sentences:
        raise FormatError("no lattice that could be rescored has a reference; check that the utterance ids match")
    check_words(sum(sentence.reference_words for sentence in sentences))
    sizes = [sentence.errors.size for sentence in sentences]
    num_words = np.concatenate([np.diff(sentence.begin) for sentence in sentences])
    token_begin, logprob, old = _scores(sentences, models, old_lm, options)
    return Features(
        keys=tuple(keys),
        lattice=np.repeat(np.arange(len(sentences)), sizes),
        errors=np.concatenate([sentence.errors for sentence in sentences]),
        graph=lm_scale * np.concatenate([sentence.graph for sentence in sentences]),
        acoustic=np.concatenate([sentence.acoustic for sentence in sentences]),
        num_words=num_words,
        word=np.concatenate([sentence.word for sentence in sentences]),
        token_begin=token_begin,
        logprob=logprob,
        old_logprob=old,
        reference_words=np.array([sentence.reference_words for sentence in sentences]),
        first_pass_errors=np.array([sentence.first_pass_errors for sentence in sentences]),
        rescored_errors=np.array([sentence.rescored_errors for sentence in sentences]),
    )


def _scores(
    sentences: Sequence[_Sentences],
    models: Sequence[LanguageModel | Mixture],
    old_lm: LanguageModel | Mixture | None,
    options: RescoreOptions,
) -> tuple[Int64s, Floats, Floats | None]:
    """Return ``(first tokens of sentences, model scores [models, tokens], old model's scores [tokens] or None)``.

    With a single model, a token is a whole sentence. If there is also an old model, its scores have been
    subtracted from the model scores, and are returned as 0.
    """
    graph = np.concatenate([sentence.graph for sentence in sentences])
    of_sentence = np.arange(graph.size + 1)
    no_old = None if old_lm is None else np.zeros(graph.size, np.float32)
    if not models:
        return of_sentence, np.zeros((0, graph.size), np.float32), None
    if len(models) == 1 and options.lm_weight >= LEAST_WEIGHT:
        new = np.concatenate([sentence.new for sentence in sentences])
        old_share = graph if old_lm is not None else (1.0 - options.lm_weight) * graph
        return of_sentence, ((old_share - new) / options.lm_weight).astype(np.float32)[None], no_old
    scored = list(_scored(sentences, [*models, *([] if old_lm is None else [old_lm])], options))
    token_begin = np.cumsum([0, *chain.from_iterable(lengths for lengths, _ in scored)])
    logprob = np.concatenate([scores for _, scores in scored], axis=1)
    if len(models) == 1:
        total = np.add.reduceat(logprob, token_begin[:-1], axis=1, dtype=np.float64)
        return of_sentence, (total[:1] - total[1:].sum(0)).astype(np.float32), no_old
    return (token_begin, logprob, None) if old_lm is None else (token_begin, logprob[:-1], logprob[-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Sentences:
    """The n-best sentences from one lattice."""

    words: SymbolTable
    word: Int32s  # word ids of all sentences
    begin: Int64s  # [sentences + 1]
    graph: Doubles
    acoustic: Doubles
    new: Doubles  # graph cost in the rescored lattice
    errors: Int64s
    reference_words: int
    first_pass_errors: int
    rescored_errors: int


def _sentences_of(
    source: Lattice,
    rescored: Lattice,
    reference_words: Sequence[str],
    forms: LexicalForms,
    scales: Scales,
    num_best: int,
) -> _Sentences:
    words = source.words
    if words is None:
        raise LatticeError("the lattice has word ids but no symbol table; specify the symbol table", key=source.key)
    paths = nbest(rescored, num_best, scales)
    begin = np.cumsum([0, *(path.words.size for path in paths)])
    word = np.concatenate([path.words for path in paths]).astype(np.int32)
    graph, acoustic = _search.sentence_costs(
        source, word, begin, scales.acoustic / scales.lm, scales.word_penalty / scales.lm
    )
    if not np.isfinite(graph).all():
        raise LatticeError(
            "the rescored lattice contains a word sequence that the original lattice does not contain", key=source.key
        )
    reference = Reference.of(source, reference_words, forms)
    return _Sentences(
        words,
        word,
        begin,
        graph,
        acoustic,
        new=np.array([path.graph_cost for path in paths]),
        errors=reference.errors_by_path(word, begin),
        reference_words=len(reference.ids),
        first_pass_errors=reference.errors(best_path(source, replace(scales, word_penalty=0.0)).words),
        rescored_errors=reference.errors(best_path(rescored, scales).words),
    )


def _scored(
    sentences: Sequence[_Sentences], models: Sequence[LanguageModel | Mixture], options: RescoreOptions
) -> Iterator[tuple[Int64s, Floats]]:
    """Score batches of lattices with every model; yield ``(tokens of each sentence, scores [models, tokens])``."""
    bound: SymbolTable | None = None
    maps: list[WordMap] = []
    for batch in _batches(sentences):
        if batch[0].words is not bound:
            bound = batch[0].words
            look_up = (options.unk_penalty, options.map_words)
            bare = [model.over(bound, *look_up) if isinstance(model, Mixture) else model for model in models]
            maps = [WordMap(bound, model, look_up[0], map_words=look_up[1]) for model in bare]
        begin = np.cumsum([0, *chain.from_iterable(np.diff(sentence.begin) for sentence in batch)])
        word = np.concatenate([sentence.word for sentence in batch])
        spoken = np.any([word_map.lm_word[word] != NO_WORD for word_map in maps], axis=0)
        token_begin = np.concatenate([[0], np.cumsum(spoken)])[begin] + np.arange(begin.size)
        scores = [_logprob(words, word[spoken], token_begin, backward=options.backward) for words in maps]
        yield np.diff(token_begin), np.stack(scores)


def _batches(sentences: Sequence[_Sentences]) -> Iterator[list[_Sentences]]:
    """Group lattices with the same symbol table into batches of up to MAX_TOKENS words."""
    batch: list[_Sentences] = []
    num_tokens = 0
    for sentence in sentences:
        if batch and (num_tokens + sentence.word.size > MAX_TOKENS or sentence.words is not batch[0].words):
            yield batch
            batch, num_tokens = [], 0
        batch.append(sentence)
        num_tokens += sentence.word.size
    yield batch


def _logprob(words: WordMap, tokens: Int32s, token_begin: Int64s, *, backward: bool) -> Floats:
    """Return the log-probabilities of words and ``</s>``, float32 [tokens]."""
    ends = token_begin[1:] - 1
    is_end = np.zeros(token_begin[-1], np.bool_)
    is_end[ends] = True
    order = np.arange(token_begin[-1])
    if backward:  # reverse words, but not </s>
        first = np.repeat(token_begin[:-1], np.diff(token_begin))
        last = np.repeat(ends, np.diff(token_begin)) - 1
        order = np.where(is_end, order, first + last - order)
    token = np.full(is_end.size, words.lm.eos, np.int32)
    lm_word = words.lm_word[tokens]
    token[~is_end] = lm_word if words.lm.empty is None else np.where(lm_word == NO_WORD, words.lm.empty, lm_word)
    trie = WordTrie()
    node = trie.add(np.ascontiguousarray(token[order]), token_begin)
    score = np.empty(is_end.size, np.float32)
    score[order] = score_trie(words.lm, trie.parent, trie.word)[node]
    score[~is_end] -= words.extra[tokens]
    return score
