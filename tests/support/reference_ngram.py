"""Slow implementation of n-gram models: a dictionary, backing off by recursion; and writers of their file formats."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import NamedTemporaryFile

from hypothesis import strategies as st

from ninja.lm.ngram.model import NgramLM, read_arpa

LN10 = math.log(10.0)
Words = tuple[str, ...]


@dataclass(frozen=True)
class SlowNgram:
    """N-grams with (log10 probability, log10 back-off weight); weights of n-grams of full length are ignored."""

    order: int
    ngrams: dict[Words, tuple[float, float]]

    def score(self, history: Words, word: str) -> float:
        """Return ln P(word | history), by the definition of back-off."""
        history = history[len(history) - self.order + 1 :] if len(history) >= self.order else history
        if (*history, word) in self.ngrams:
            return self.ngrams[(*history, word)][0] * LN10
        _, weight = self.ngrams.get(history, (0.0, 0.0))
        return weight * LN10 + self.score(history[1:], word)

    def is_context(self, words: Words) -> bool:
        """Return whether a longer n-gram begins with these words, or they have a back-off weight."""
        longer = any(len(ngram) > len(words) and ngram[: len(words)] == words for ngram in self.ngrams)
        return longer or self.ngrams.get(words, (0.0, 0.0))[1] != 0.0

    def state(self, history: Words) -> Words:
        """Return the longest suffix of a history that is a context of the model."""
        history = history[len(history) - self.order + 1 :] if len(history) >= self.order else history
        while history and not self.is_context(history):
            history = history[1:]
        return history

    def closed(self) -> SlowNgram:
        """Return a model with an n-gram for each context that lacks one, scored by back-off; no probability above 1."""
        whole = dict(self.ngrams)
        for ngram in self.ngrams:
            for length in range(2, len(ngram)):
                begin = ngram[:length]
                whole.setdefault(begin, (min(self.score(begin[:-1], begin[-1]) / LN10, 0.0), 0.0))
        return SlowNgram(self.order, whole)


TRIGRAM = SlowNgram(
    3,
    {
        ("<s>",): (-99.0, -0.5),
        ("a",): (-1.0, -0.25),
        ("b",): (-0.75, 0.0),
        ("</s>",): (-0.5, 0.0),
        ("<s>", "a"): (-0.25, -0.125),
        ("a", "b"): (-0.5, 0.0),
        ("<s>", "a", "b"): (-0.0625, 0.0),
        ("b", "a", "</s>"): (-1.5, 0.0),  # neither "b a" nor "a </s>" occurs
    },
)


def inner_words(model: SlowNgram) -> list[str]:
    """Return the words of a model, without <s> and </s>."""
    return sorted(word for (word,) in (n for n in model.ngrams if len(n) == 1) if word not in ("<s>", "</s>"))


def histories(model: SlowNgram, longest: int = 4) -> Iterator[Words]:
    """Return all sequences of up to `longest` words."""
    lengths = range(longest + 1)
    return itertools.chain.from_iterable(itertools.product(inner_words(model), repeat=length) for length in lengths)


@st.composite
def models(draw: st.DrawFn, max_order: int = 4) -> SlowNgram:
    """Draw a model of few words and any set of longer n-grams: contexts and suffixes may be missing."""
    order = draw(st.integers(1, max_order))
    words = ["<s>", "</s>", *draw(st.sampled_from([["a"], ["a", "b"], ["<unk>", "a", "b", "ç"]]))]
    inner = [word for word in words if word not in ("<s>", "</s>")]
    logprob = st.integers(-400, 0).map(lambda step: step / 64)
    weight = st.integers(-64, 64).map(lambda step: step / 64) | st.just(0.0)
    ngrams = {(word,): (draw(logprob), draw(weight)) for word in draw(st.permutations(words))}
    for length in range(2, order + 1):
        begin, end = st.sampled_from(["<s>", *inner]), st.sampled_from(["</s>", *inner])
        ngram = st.tuples(begin, *[st.sampled_from(inner)] * (length - 2), end)
        for words_of_ngram in draw(st.lists(ngram, max_size=8, unique=True)):
            ngrams[words_of_ngram] = (
                draw(logprob),
                draw(weight) if length < order and words_of_ngram[-1] != "</s>" else 0.0,
            )
    return SlowNgram(order, ngrams)


def write_arpa(model: SlowNgram, *, end: str = "\n", zeros: bool = True) -> bytes:
    """Return a model in the ARPA format.

    Args:
        model: The model.
        end: Line end.
        zeros: Write back-off weights of 0, too.
    """
    lines = ["", "\\data\\"]
    lengths = range(1, model.order + 1)
    lines += [f"ngram {n}={sum(len(ngram) == n for ngram in model.ngrams)}" for n in lengths]
    for length in lengths:
        lines += ["", f"\\{length}-grams:"]
        for ngram, (logprob, weight) in model.ngrams.items():
            if len(ngram) == length:
                has_weight = length < model.order and (zeros or weight)
                lines.append("\t".join([repr(logprob), " ".join(ngram), *[repr(weight)] * bool(has_weight)]))
    return end.join([*lines, "", "\\end\\", ""]).encode()


def language_model(model: SlowNgram | None) -> NgramLM | None:
    """Return a model read from its ARPA file; None if there is no model."""
    if model is None:
        return None
    with NamedTemporaryFile(suffix=".arpa") as file:
        file.write(write_arpa(model))
        file.flush()
        return read_arpa(file.name)


def write_const_arpa(model: SlowNgram, word_id: dict[str, int], far: int = 2**30 - 1) -> bytes:
    """Return a closed model as Kaldi's const-arpa; children further away than `far` use the overflow table."""
    children: dict[Words, list[Words]] = {}
    for ngram in model.ngrams:
        children.setdefault(ngram[:-1], []).append(ngram)

    def has_state(ngram: Words) -> bool:
        return len(ngram) == 1 or (len(ngram) < model.order and (ngram in children or model.ngrams[ngram][1] != 0.0))

    ids = {ngram: [word_id[word] for word in ngram] for ngram in model.ngrams}
    states = sorted((ngram for ngram in model.ngrams if has_state(ngram)), key=ids.__getitem__)
    place, size = {}, 0
    for ngram in states:
        place[ngram] = size
        size += 3 + 2 * (len(children.get(ngram, [])))
    block, overflow = b"", []
    for ngram in states:
        logprob, weight = model.ngrams[ngram]
        below = sorted(children.get(ngram, []), key=ids.__getitem__)
        block += struct.pack("<ffi", logprob * LN10, weight * LN10 if model.order > 1 else 0.0, len(below))
        for child in below:
            if not has_state(child):
                (entry,) = struct.unpack("<i", struct.pack("<f", model.ngrams[child][0] * LN10))
                entry &= ~1
            elif place[child] - place[ngram] <= far:
                entry = (place[child] - place[ngram]) * 2 | 1
            else:
                entry = -(len(overflow) * 2 | 1)
                overflow.append(place[child] + 1)
            block += struct.pack("<ii", ids[child][-1], entry)
    unigrams = [0] * (max(word_id[word] for (word,) in (n for n in model.ngrams if len(n) == 1)) + 1)
    for ngram in states:
        if len(ngram) == 1:
            unigrams[ids[ngram][0]] = place[ngram] + 1
    marks = [word_id["<s>"], word_id["</s>"], word_id.get("<unk>", -1), model.order]
    return b"".join(
        [
            b"\0B<ConstArpaLm> <LmInfo> ",
            *(struct.pack("<bi", 4, number) for number in marks),
            b"</LmInfo> <LmStates> " + struct.pack("<bq", 8, size) + block,
            b"</LmStates> <LmUnigram> " + struct.pack(f"<bi{len(unigrams)}q", 4, len(unigrams), *unigrams),
            b"</LmUnigram> <LmOverflow> " + struct.pack(f"<bi{len(overflow)}q", 4, len(overflow), *overflow),
            b"</LmOverflow> </ConstArpaLm> ",
        ]
    )


Arc = tuple[int, int, float, int]  # input label, output label, weight, next state


def write_fst(states: list[tuple[float, list[Arc]]], start: int = 0, symbols: dict[str, int] | None = None) -> bytes:
    """Return an OpenFst vector FST of (final weight, arcs) pairs, of arc type standard."""

    def text(value: str) -> bytes:
        return struct.pack("<i", len(value.encode())) + value.encode()

    image = struct.pack("<i", 2125659606) + text("vector") + text("standard")
    image += struct.pack("<iiQqqq", 2, 0 if symbols is None else 2, 3, start, len(states), 0)
    if symbols is not None:
        image += struct.pack("<i", 2125658996) + text("words") + struct.pack("<qq", len(symbols), len(symbols))
        image += b"".join(text(word) + struct.pack("<q", number) for word, number in symbols.items())
    for final, arcs in states:
        image += struct.pack("<fq", final, len(arcs)) + b"".join(struct.pack("<iifi", *arc) for arc in arcs)
    return image


def write_grammar(model: SlowNgram, word_id: dict[str, int], *, spelled: bool = False, **options: object) -> bytes:
    """Return a closed model as Kaldi's G.fst.

    Args:
        model: The model.
        word_id: Word ids; that of ``#0``, if any, is the input label of back-off arcs.
        spelled: Write ``<s>`` and ``</s>`` as arcs, with a separate initial and final state.
        options: Options of `write_fst`.
    """
    contexts = sorted({model.state(ngram) for ngram in model.ngrams} | {model.state(("<s>",)), ()})
    # Kaldi's arpa2fst keeps every context on a back-off chain.
    number = {context: place for place, context in enumerate(contexts)}
    start, end = number[model.state(("<s>",))], len(contexts)
    states: list[tuple[float, list[Arc]]] = []
    for context in contexts:
        final, arcs = math.inf, []
        for ngram, (logprob, _) in model.ngrams.items():
            if ngram[:-1] != context or ngram[-1] == "<s>":
                continue
            label = word_id[ngram[-1]]
            if ngram[-1] != "</s>":
                arcs.append((label, label, -logprob * LN10, number[model.state(ngram)]))
            elif spelled:
                arcs.append((label, label, -logprob * LN10 - 0.5, end))
            else:
                final = -logprob * LN10
        if context:
            weight = model.ngrams[context][1]
            arcs.append((word_id.get("#0", 0), 0, -weight * LN10, number[model.state(context[1:])]))
        states.append((final, arcs))
    if spelled:
        states += [(0.5, []), (math.inf, [(word_id["<s>"], word_id["<s>"], 0.0, start)])]
        start = end + 1
    return write_fst(states, start, **options)


MODEL = SlowNgram(
    3,
    {
        ("<s>",): (-99.0, -0.5),
        ("</s>",): (-0.5, 0.0),
        ("a",): (-1.0, -0.25),
        ("CITY",): (-0.75, -0.125),
        ("DAY",): (-1.25, 0.0),
        ("<s>", "a"): (-0.25, -0.25),
        ("a", "CITY"): (-0.5, -0.5),
        ("CITY", "</s>"): (-0.0625, 0.0),
        ("<s>", "a", "CITY"): (-0.125, 0.0),
        ("a", "CITY", "DAY"): (-0.75, 0.0),
    },
)
CLASSES = """CITY 0.5 york
CITY 0.25 new york
CITY 0.25 new york a
DAY a

DAY 0.5 new
"""
