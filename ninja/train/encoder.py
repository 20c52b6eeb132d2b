"""Training of phrase encoders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.recipe import EncoderOptions, EncoderProgress
from ninja.context.deep.symbols import FIRST, Symbols, padded
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.distances import NO_PHONE, distances
from ninja.context.sound.pronunciation import Phones
from ninja.errors import OptionError
from ninja.lm.stored_network import CardEntry
from ninja.models.entity_encoder import Config, EntityEncoder
from ninja.train.pairs import SHARPNESS, LettersAndPhones, Mishearing, TrainingWords, training_words
from ninja.train.step import check_memory, clip_gradient

REPORT = 100  # number of steps between progress reports
Numbers = npt.NDArray[np.int64]
DROPPED = 0.25  # fraction of phrases without letters, and of phrases without phones, if a phrase has both
FAR = 100.0  # distance between phrases that are not compared


def train_encoder(
    entries: Iterable[tuple[str, Phones]],
    symbols: Symbols,
    confusion: Confusion,
    options: EncoderOptions,
    progress: Callable[[EncoderProgress], None] | None = None,
) -> PhraseEncoder:
    """Train a phrase encoder on phrases and their phones.

    The vector of a phrase is trained to be similar to the vectors of phrases that can be confused with it: the softmax
    of the similarities in a batch approximates the normalised ``exp(-SHARPNESS · distance)``. The vector is also
    trained to encode the letters and phones of the phrase, which decoders predict from it.

    Args:
        entries: ``(phrase, phones)`` pairs; the phones may be empty.
        symbols: Letters and phones that the encoder reads.
        confusion: Phone confusion costs, for the phones of `symbols`.
        options: Training options.
        progress: Called with progress reports.

    Raises:
        ModelError: Training diverged.
        OptionError: Fewer than two entries consist of letters and phones in `symbols`, the network is too large for the
            memory, or the time limit is too short for a training step.

    Source: Hinton and Roweis 2002, "Stochastic neighbor embedding" (the loss), as Jeon 2020 uses it for words.
    """
    return train_on(training_words(entries, symbols, confusion, options.seed), symbols, confusion, options, progress)


def train_on(
    words: TrainingWords,
    symbols: Symbols,
    confusion: Confusion,
    options: EncoderOptions,
    progress: Callable[[EncoderProgress], None] | None = None,
) -> PhraseEncoder:
    """Train a phrase encoder on words whose neighbours (words that sound similar) are known; see `train_encoder`."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    check_memory(6 * options.hidden**2)  # the recurrent weights of a GRU in both directions
    start = time.monotonic()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    draw = Mishearing(words, symbols, confusion, rng)
    shape = {name: getattr(options, name) for name in ("extractor", "inputs", "outputs", "hidden")}
    network = EntityEncoder(Config(len(symbols.letters) + FIRST, len(symbols.phones) + FIRST, **shape))
    optimiser = torch.optim.Adam(network.parameters(), lr=options.learning_rate, betas=(0.9, 0.98))
    row = np.array([NO_PHONE, NO_PHONE, *confusion.numbers(symbols.phones)])
    total, num_steps = 0.0, 0
    for step in range(1, options.steps + 1):
        minutes = (time.monotonic() - start) / 60
        done = max(step / options.steps, minutes / options.max_minutes if options.max_minutes else 0.0)
        if done > 1.0:
            break
        optimiser.param_groups[0]["lr"] = options.learning_rate * min(1.0, step / 100) * (1.02 - done)
        spoken, recognised = draw.batch(options.batch)
        inputs = _matrices(_inputs(spoken, spoken, options, rng, draw))
        first, writing = network.losses(*_matrices(spoken), inputs)
        loss = writing
        if options.metric:
            second = network(*_matrices(_inputs(recognised, spoken, options, rng, draw)))
            loss = loss + options.metric * _metric(
                first, second, network.sharpness, _targets(spoken, recognised, row, confusion)
            )
        optimiser.zero_grad()
        loss.backward()
        clip_gradient(network, 5.0, step, options.learning_rate)
        optimiser.step()
        num_steps = step
        total += float(loss.detach())
        if progress is not None and (step % REPORT == 0 or step == options.steps):
            progress(EncoderProgress(step, options.steps, minutes, total / ((step - 1) % REPORT + 1)))
            total = 0.0
    if not num_steps:
        raise OptionError(f"max_minutes is {options.max_minutes:g}, which is too short for one step; increase it")
    card: dict[str, CardEntry] = {
        "entries": len(words.texts),
        "neighbours": sum(map(len, words.near)),
        "confusion": confusion.source,
        "steps": num_steps,
        "minutes": round((time.monotonic() - start) / 60, 1),
        "batch": options.batch,
        "learning_rate": options.learning_rate,
        "metric": options.metric,
        "seed": options.seed,
    }
    return PhraseEncoder(network.eval(), symbols, card)


def _inputs(
    phrases: Sequence[LettersAndPhones],
    spoken: Sequence[LettersAndPhones],
    options: EncoderOptions,
    rng: np.random.Generator,
    draw: Mishearing,
) -> list[LettersAndPhones]:
    """Return the letters and the phones of phrases as the encoder reads them in training.

    If the encoder reads letters and phones, drop the letters or the phones of some phrases, but never both. If it reads
    only letters, replace missing letters with the misspelled letters of the corresponding phrase in `spoken`.
    """
    inputs: list[LettersAndPhones] = []
    for (letters, phones), (spelled, _), chance in zip(phrases, spoken, rng.random(len(phrases)).tolist(), strict=True):
        if options.inputs == "letters" and not letters:
            letters = draw.spelling_errors(spelled)
        if options.inputs == "both" and letters and phones:
            letters, phones = letters if chance > DROPPED else [], phones if chance < 1 - DROPPED else []
        inputs.append((letters, phones))
    return inputs


def _matrices(phrases: Sequence[LettersAndPhones]) -> tuple[Tensor, Tensor]:
    letters, phones = (torch.from_numpy(padded(part).T.copy()) for part in zip(*phrases, strict=True))
    return letters, phones


def _targets(
    spoken: Sequence[LettersAndPhones], recognised: Sequence[LettersAndPhones], row: Numbers, confusion: Confusion
) -> Tensor:
    """Return -SHARPNESS times the distances between spoken phrases and misrecognitions, [spoken, recognised].

    For each spoken phrase, two distances are computed: to its own misrecognition, and to the misrecognition at the
    corresponding position in the other half of the batch. All other distances are `FAR`. If the spoken phrase or the
    misrecognition has no phones, the distance is 0 for the phrase's own misrecognition, and `FAR` for any other.
    """
    first, second = (padded([phones for _, phones in part]) for part in (spoken, recognised))
    spoken_empty, recognised_empty = (first == 0).all(1), (second == 0).all(1)
    index = np.arange(len(spoken))
    cost = np.full((len(spoken), len(recognised)), FAR, np.float32)
    for other_half in (0, len(spoken) // 2, -(len(spoken) // 2)):
        near = (index + other_half) % len(spoken)
        exact = distances(row[first], row[second[near]], confusion)
        cost[index, near] = np.where(spoken_empty | recognised_empty[near], FAR * (near != index), exact)
    return torch.from_numpy(-SHARPNESS * cost)


def _metric(first: Tensor, second: Tensor, sharpness: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of the softmax of phrase similarities, relative to the softmax of `target`.

    The similarities are scaled inner products of the vectors in `first` and `second`. The result is the mean of the
    cross-entropies for the softmax over each axis.
    """
    near = sharpness.clamp(max=4.6).exp() * first @ second.T  # [spoken, recognised]
    loss = near.new_zeros(())
    for axis in (0, 1):
        loss = loss - (target.softmax(axis) * near.log_softmax(axis)).sum(axis).mean() / 2
    return loss
