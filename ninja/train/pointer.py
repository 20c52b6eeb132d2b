"""Training of a pointer to phrases for a language model whose weights do not change.

The model's states are computed once. Each step draws sentences, omits some of their phrases from the phrase lists,
and adds rare words and phrases from other sentences to the lists. The loss is the negative log-probability of a
sentence. Phrases in the list are either copied or predicted word by word; all other words are predicted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.pointer import ContextPointer, digest
from ninja.context.deep.recipe import EncoderProgress, PointerOptions
from ninja.errors import ModelError
from ninja.lm.protocol import LanguageModel
from ninja.lm.stored_network import CardEntry
from ninja.models.phrase_pointer import Config, PhrasePointer
from ninja.train.simulated_lists import SimulatedText, Span, simulate
from ninja.train.step import clip_gradient

REPORT = 100  # number of steps between progress reports
READ_AT_ONCE = 256  # number of sentences per batch when states are computed
KEPT = 0.8  # fraction of sentences whose own phrases may be in their phrase lists
OFTEN = 2000.0  # a phrase whose rare word occurs c times is omitted with probability min(0.5, c / OFTEN)
NEW = 0.1  # fraction of phrases that are treated as unknown to the language model
SPOKEN = 0.5  # fraction of a list's other phrases that occur in other sentences; the rest are rare words
NOTHING = -1e30  # represents ln 0; unlike -inf, it never leads to NaN gradients


@dataclass(frozen=True, slots=True)
class _States:
    """Hidden states before each word and each sentence end, for all sentences in one array."""

    state: Tensor  # float16 [positions, state]
    word: Tensor  # ln P of the next word, float32 [positions]
    unknown: Tensor  # ln P of an unknown word, float32 [positions]
    begin: npt.NDArray[np.int64]  # first position of each sentence, [sentences + 1]


def train_pointer(
    lm: LanguageModel,
    name: str,
    text: Callable[[], Iterable[list[str]]],
    encoder: PhraseEncoder,
    options: PointerOptions,
    progress: Callable[[EncoderProgress], None] | None = None,
) -> ContextPointer:
    """Train a pointer to phrases on a text.

    Args:
        lm: The language model for which the pointer is trained; it must provide its hidden state.
        name: Name of the language model, for messages.
        text: Function that returns the sentences, which should be similar to the language model's training text; it is
            called twice.
        encoder: The phrase encoder, which is not changed.
        options: Training options.
        progress: Called with progress reports.

    Raises:
        ModelError: The language model does not provide its hidden state, or has no <unk>; or training diverged.
        OptionError: The text has no rare words.
    """
    if lm.state_size is None or lm.unk is None:
        raise ModelError("the language model has no hidden state or no <unk>; use an LSTM or a Kaldi RNNLM", name)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    start = time.monotonic()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    simulated = simulate(text, options, rng)
    states = _read(lm, simulated.sentences)
    phrases = _Phrases(lm, encoder, simulated)
    network = PhrasePointer(Config(lm.state_size, encoder.network.config.vector, options.width))
    network.state_scale.fill_(1 / float(states.state[:10_000].float().square().mean().sqrt()))
    if phrases.known.any():
        network.word_scale.fill_(1 / max(float(phrases.first_word[phrases.known].square().mean().sqrt()), 1e-6))
    optimiser = torch.optim.Adam(network.parameters(), lr=options.learning_rate, betas=(0.9, 0.98))
    total = 0.0
    for step in range(1, options.steps + 1):
        rate = min(1.0, step / 100) * (1 + math.cos(math.pi * step / options.steps)) / 2
        optimiser.param_groups[0]["lr"] = options.learning_rate * rate
        loss = _loss(network, states, phrases, simulated, options, rng)
        optimiser.zero_grad()
        loss.backward()
        clip_gradient(network, 1.0, step, options.learning_rate)
        optimiser.step()
        total += float(loss.detach())
        if progress is not None and (step % REPORT == 0 or step == options.steps):
            minutes = (time.monotonic() - start) / 60
            progress(EncoderProgress(step, options.steps, minutes, total / ((step - 1) % REPORT + 1)))
            total = 0.0
    card: dict[str, CardEntry] = {
        "positions": int(states.begin[-1]),
        "phrases": len(simulated.phrases),
        "common": options.common,
        "most_phrases": options.most_phrases,
        "steps": options.steps,
        "minutes": round((time.monotonic() - start) / 60, 1),
        "batch": options.batch,
        "learning_rate": options.learning_rate,
        "seed": options.seed,
    }
    return ContextPointer(encoder, network.eval(), {"name": name, "digest": digest(lm)}, card)


def _read(lm: LanguageModel, sentences: list[list[str]]) -> _States:
    """Compute the hidden states of a language model for all positions in sentences."""
    assert lm.state_size is not None
    begin = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences)])
    state = np.zeros((begin[-1], lm.state_size), np.float16)
    word, unknown = np.zeros(begin[-1], np.float32), np.zeros(begin[-1], np.float32)
    ids = [lm.vocabulary.ids(sentence) for sentence in sentences]
    lacking = {word for sentence, numbers in zip(sentences, ids, strict=True)
               for word, number in zip(sentence, numbers, strict=True) if number < 0}  # fmt: skip
    penalty = np.float32(math.log(lm.unk_words or max(2, len(lacking))))
    assert lm.unk is not None  # train_pointer has checked this
    order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
    for first in range(0, len(order), READ_AT_ONCE):
        alive = np.array(order[first : first + READ_AT_ONCE])
        slots = lm.start(len(alive))
        time = 0
        while len(alive):
            target = np.array([ids[row][time] if time < len(ids[row]) else lm.eos for row in alive], np.int32)
            read = np.where(target < 0, lm.unk, target).astype(np.int32)
            at = begin[alive] + time
            state[at] = lm.states(slots)
            unknown[at] = lm.logprob(slots, np.full(len(slots), lm.unk, np.int32)) - penalty
            word[at] = np.where(target < 0, unknown[at], lm.logprob(slots, read))
            goes_on = np.array([time < len(ids[row]) for row in alive])
            new = lm.advance(slots[goes_on], read[goes_on])
            lm.release(slots)
            alive, slots, time = alive[goes_on], new, time + 1
        lm.release(slots)
    return _States(torch.from_numpy(state), torch.from_numpy(word), torch.from_numpy(unknown), begin)


class _Phrases:
    """Phrase vectors and first words, from which keys are computed."""

    def __init__(self, lm: LanguageModel, encoder: PhraseEncoder, simulated: SimulatedText) -> None:
        assert lm.unk is not None  # train_pointer has checked this
        texts = simulated.phrases
        self.vector = torch.from_numpy(encoder.vectors(texts, [()] * len(texts)))
        words = [text.split(" ") for text in texts]
        first = np.array(lm.vocabulary.ids([phrase[0] for phrase in words]), np.int32)
        first_word = lm.word_vectors(np.where(first < 0, lm.unk, first).astype(np.int32))
        self.known = torch.from_numpy(first >= 0)
        self.first_word = torch.from_numpy(np.where(first[:, None] < 0, np.float32(0), first_word))
        self.num_words = torch.tensor([float(len(phrase)) for phrase in words])
        self.count = np.array(simulated.count, np.float64)

    def keys(self, network: PhrasePointer, chosen: npt.NDArray[np.int64], new: npt.NDArray[np.bool_]) -> Tensor:
        """Return the keys of phrases; `new` phrases are treated as if their first word were unknown to the model."""
        at = torch.from_numpy(chosen)
        first_word = self.first_word[at].masked_fill(torch.from_numpy(new)[:, None], 0.0)
        keys: Tensor = network.keys(self.vector[at], first_word, self.num_words[at])
        return keys


def _loss(
    network: PhrasePointer,
    states: _States,
    phrases: _Phrases,
    simulated: SimulatedText,
    options: PointerOptions,
    rng: np.random.Generator,
) -> Tensor:
    """Return the mean negative log-probability per word of a random batch of sentences."""
    sentences = rng.integers(len(simulated.sentences), size=options.batch)
    position, owner, spans, owners = _drawn(sentences, states, phrases, simulated, rng)
    spoken = np.array([span.phrase for _, span in spans], np.int64)
    new = rng.random(len(spoken)) < NEW
    others = _others(simulated, set(spoken.tolist()), options, rng)
    key = phrases.keys(
        network, np.concatenate([others, spoken]), np.concatenate([np.zeros(len(others), np.bool_), new])
    )
    query, alone = network.queries(states.state[torch.from_numpy(position)].float())
    score = query @ key.T  # [positions, other and spoken phrases]
    foreign = owner[:, None] != owners[None]  # phrases of other sentences
    from_sentence = score[:, len(others) :].masked_fill(torch.from_numpy(foreign), NOTHING)
    length = len(others) + np.bincount(owners, minlength=options.batch)[owner]  # size of the list at each position
    alone = alone + network.offset * torch.from_numpy(np.log(np.maximum(length, 1))).float()
    total = torch.cat([alone[:, None], score[:, : len(others)], from_sentence], 1).logsumexp(1)
    word = states.word[torch.from_numpy(position)].clone()
    row = np.array([at for at, _ in spans], np.int64)
    group = np.arange(len(position))  # group of each position; the positions of a phrase form one group
    for (at, span), is_new in zip(spans, new.tolist(), strict=True):
        group[at : at + span.length] = at
        if is_new:
            word[at] = states.unknown[position[at]]
    outside = torch.zeros(len(position)).index_add(0, torch.from_numpy(group), alone - total + word)
    copied = torch.full((len(position),), NOTHING)
    if len(row):
        at_row = torch.from_numpy(row)
        copied = copied.index_put((at_row,), from_sentence[at_row, torch.arange(len(row))] - total[at_row])
    first = torch.from_numpy(np.unique(group))
    return -torch.logaddexp(outside[first], copied[first]).sum() / len(position)


def _drawn(
    sentences: npt.NDArray[np.int64],
    states: _States,
    phrases: _Phrases,
    simulated: SimulatedText,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[tuple[int, Span]], npt.NDArray[np.int64]]:
    """Draw the phrases of each sentence that are put in its phrase list.

    Returns:
        The indices in `states` of all positions in the sentences; for each of these positions, the index of its
        sentence in `sentences`; the drawn phrases, each with the index of its first word among these positions; and
        for each drawn phrase, the index of its sentence in `sentences`.
    """
    position = np.concatenate([np.arange(states.begin[number], states.begin[number + 1]) for number in sentences])
    size = states.begin[sentences + 1] - states.begin[sentences]
    owner = np.repeat(np.arange(len(sentences)), size)
    row = np.cumsum(size) - size
    spans: list[tuple[int, Span]] = []
    owners: list[int] = []
    for number, sentence in enumerate(sentences.tolist()):
        if rng.random() >= KEPT:
            continue
        for span in simulated.spans[sentence]:
            if rng.random() < 1 - min(0.5, phrases.count[span.phrase] / OFTEN):
                spans.append((int(row[number]) + span.begin, span))
                owners.append(number)
    return position, owner, spans, np.array(owners, np.int64)


def _others(
    simulated: SimulatedText, excluded: set[int], options: PointerOptions, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw phrases that are added to every phrase list in the batch; phrases in `excluded` are not drawn."""
    if options.most_phrases == 0:
        return np.empty(0, np.int64)
    count = int(math.exp(rng.random() * math.log(options.most_phrases + 1)))
    num_spoken = int(rng.binomial(count, SPOKEN)) if simulated.spoken else 0
    drawn = {simulated.spoken[index] for index in rng.integers(max(1, len(simulated.spoken)), size=num_spoken).tolist()}
    drawn |= {simulated.types[index] for index in rng.integers(len(simulated.types), size=count - num_spoken).tolist()}
    return np.array(sorted(drawn - excluded), np.int64)
