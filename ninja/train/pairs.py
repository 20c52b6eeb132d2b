"""Training data for the phrase encoder: phrases and their plausible misrecognitions.

A word is replaced either with a similar word from the dictionary, or with its own phones (or its letters, if it has no
phones), in which errors are simulated. The probability of a similar word decreases with the distance between the phones
of the two words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.context.deep.symbols import FIRST, Symbols, padded
from ninja.context.entities.lists import Phrase
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.distances import NO_PHONE, distances
from ninja.context.sound.pronunciation import Phones, Pronouncer, PronunciationError
from ninja.errors import OptionError
from ninja.lattice.characters import plain_letters

SHARPNESS = 4.0  # decrease of log-probability per unit of distance, in nats
NEAREST = 8  # maximum number of neighbours per word
FARTHEST = 0.35  # maximum distance of a neighbour per phone
TRIES = 8  # maximum number of candidates per block that are compared with a word
ERROR = 0.12  # fraction of phones that simulated errors change
TOGETHER = 8192  # number of word pairs per distance computation
RARE = 1e-5  # letters with a relative frequency below this are not in the alphabet
MOST_WORDS = 3  # maximum number of words combined into a phrase
MOST_PHONES = 24  # maximum number of phones per training word

# Classes of sounds that are seldom confused with other classes; other sounds (vowels, glides) are ignored here.
_KINDS = {
    **dict.fromkeys(("P", "B"), "p"), **dict.fromkeys(("F", "V", "TH", "DH"), "f"),
    **dict.fromkeys(("T", "D"), "t"), **dict.fromkeys(("K", "G"), "k"),
    **dict.fromkeys(("S", "Z", "SH", "ZH", "CH", "JH"), "s"), **dict.fromkeys(("M", "N", "NG"), "n"),
    "L": "l", "R": "r", "ER": "r",
}  # fmt: skip

LettersAndPhones = tuple[list[int], list[int]]  # ids of letters and of phones


@dataclass(frozen=True, slots=True)
class TrainingWords:
    """Words with one pronunciation each, and their neighbours (words that sound similar)."""

    texts: list[str]
    letters: list[list[int]]
    phones: list[list[int]]  # ids of the encoder
    near: list[list[int]]  # neighbours of each word
    odds: list[npt.NDArray[np.float64]]  # probability of each neighbour


def training_words(
    entries: Iterable[tuple[str, Phones]], symbols: Symbols, confusion: Confusion, seed: int = 1
) -> TrainingWords:
    """Find the neighbours of words, for training.

    Args:
        entries: ``(word, phones)`` pairs.
        symbols: Letters and phones of the encoder.
        confusion: Phone confusion costs.
        seed: Random seed; each word is compared with a random sample of candidates.

    Raises:
        OptionError: Fewer than two words consist of letters and phones in `symbols`.
    """
    texts: list[str] = []
    letters: list[list[int]] = []
    phones: list[list[int]] = []
    for text, sound in entries:
        spelled, pronounced = symbols.spelled(text), symbols.pronounced(sound)
        if spelled and len(pronounced) <= MOST_PHONES and (pronounced or not sound):
            texts.append(text)
            letters.append(spelled)
            phones.append(pronounced)
    if len(texts) < 2:
        raise OptionError(
            f"at least 2 usable training words are needed, found {len(texts)}; specify a lexicon, or phrases spelled "
            "with letters that the encoder reads"
        )
    pairs = _candidates([tuple(symbols.phones[phone - FIRST] for phone in string) for string in phones], seed)
    near: list[list[int]] = [[] for _ in texts]
    odds = [np.zeros(0) for _ in texts]
    if len(pairs):
        cost = _costs(padded(phones), np.array(list(map(len, phones))), pairs, symbols, confusion)
        length = np.array(list(map(len, phones)))
        is_near = cost <= FARTHEST * length[pairs].mean(axis=1)
        pairs, cost = pairs[is_near], cost[is_near]
        order = np.lexsort((cost, pairs[:, 0]))
        pairs, cost = pairs[order], cost[order]
        begin = np.searchsorted(pairs[:, 0], np.arange(len(texts) + 1))
        for word in np.unique(pairs[:, 0]).tolist():
            chosen = slice(begin[word], min(begin[word + 1], begin[word] + NEAREST))
            near[word] = pairs[chosen, 1].tolist()
            weight = np.exp(-SHARPNESS * cost[chosen].astype(np.float64))
            odds[word] = weight / weight.sum()
    return TrainingWords(texts, letters, phones, near, odds)


def _costs(
    phones: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
    pairs: npt.NDArray[np.int64],
    symbols: Symbols,
    confusion: Confusion,
) -> npt.NDArray[np.float32]:
    """Return the distances of word pairs, float32 [pairs]; pairs of similar length are computed together."""
    row = np.array([NO_PHONE] * FIRST + confusion.numbers(symbols.phones))
    longest = length[pairs].max(axis=1)
    order = np.argsort(longest, kind="stable")
    cost = np.zeros(len(pairs), np.float32)
    for part in np.array_split(order, len(pairs) // TOGETHER + 1):
        if len(part):
            one, other = (row[phones[pairs[part, side], : longest[part[-1]]]] for side in (0, 1))
            cost[part] = distances(one, other, confusion)
    return cost


def _candidates(sounds: Sequence[Phones], seed: int) -> npt.NDArray[np.int64]:
    """Return random pairs of words with the same consonant classes except perhaps the last, int64 [pairs, 2]."""
    rng = np.random.default_rng(seed)
    blocks: dict[str, list[int]] = defaultdict(list)
    for word, sound in enumerate(sounds):
        kinds = "".join(_KINDS.get(phone, "") for phone in sound)
        if sound:
            blocks[kinds].append(word)
            blocks[f"{kinds[:-1]}-"].append(word)
    keys = [np.zeros(0, np.int64)]
    for members in blocks.values():
        words = np.array(members, np.int64)
        if len(words) > 1:
            other = words[rng.integers(len(words), size=(len(words), min(len(words), TRIES)))]
            keys.append((words[:, None] * len(sounds) + other).ravel())
    pairs: npt.NDArray[np.int64] = np.stack(np.divmod(np.unique(np.concatenate(keys)), len(sounds)), axis=1)
    return np.compress(pairs[:, 0] != pairs[:, 1], pairs, axis=0)


class Mishearing:
    """Generator of random phrases and their misrecognitions."""

    def __init__(self, words: TrainingWords, symbols: Symbols, confusion: Confusion, rng: np.random.Generator) -> None:
        self.words = words
        self._rng = rng
        self._linked = np.array([word for word, near in enumerate(words.near) if near], np.int64)
        self._num_letters, self._num_phones = len(symbols.letters), len(symbols.phones)
        rows = confusion.numbers(symbols.phones)
        weight = np.exp(-SHARPNESS * confusion.substitution[np.ix_(rows, rows)].astype(np.float64))
        np.fill_diagonal(weight, 0.0)
        self._cumulative = weight.cumsum(axis=1) / weight.sum(axis=1, keepdims=True)

    def batch(self, size: int) -> tuple[list[LettersAndPhones], list[LettersAndPhones]]:
        """Return ``(phrases, misrecognitions)``, with one misrecognition per phrase.

        Each phrase consists of a drawn word and at most two random words. For the first half of the batch, words with
        neighbours are drawn. For the second half, a neighbour of each of these words is drawn. If no word has
        neighbours, all words are drawn at random.
        """
        rng, words = self._rng, self.words
        seeds = rng.integers(len(words.texts), size=size)
        chosen = [int(word) for word in seeds[: size - size // 2]]
        if len(self._linked):
            chosen = [int(self._linked[word % len(self._linked)]) for word in chosen]
        chosen += [self._neighbour(word, int(other)) for word, other in zip(chosen, seeds[len(chosen) :], strict=False)]
        spoken: list[LettersAndPhones] = []
        recognised: list[LettersAndPhones] = []
        for word in chosen:
            parts = [word]
            while len(parts) < MOST_WORDS and rng.random() < 0.2:
                parts.insert(int(rng.integers(len(parts) + 1)), int(rng.integers(len(words.texts))))
            spoken.append(_glued([(words.letters[part], words.phones[part]) for part in parts]))
            misheard = [self._misheard(part) for part in parts]
            recognised.append(
                ([], [phone for _, phones in misheard for phone in phones])
                if any(not letters for letters, _ in misheard)
                else _glued(misheard)
            )
        return spoken, recognised

    def _neighbour(self, word: int, otherwise: int) -> int:
        near = self.words.near[word]
        return near[int(self._rng.integers(len(near)))] if near else otherwise

    def _misheard(self, word: int) -> LettersAndPhones:
        """Return a misrecognition of a word: a neighbour, or the word's phones with simulated errors and no letters.

        If the word has no phones, its letters with simulated errors are returned instead.
        """
        words, rng = self.words, self._rng
        near = words.near[word]
        if near and rng.random() < 0.6:
            other = near[int(np.searchsorted(words.odds[word].cumsum(), rng.random() * 0.999999))]
            return words.letters[other], words.phones[other]
        if not words.phones[word]:
            return self._errors(words.letters[word], self._num_letters, None), []
        return [], self._errors(words.phones[word], self._num_phones, self._cumulative)

    def _errors(self, string: list[int], num_symbols: int, cumulative: npt.NDArray[np.float64] | None) -> list[int]:
        """Return a non-empty copy of a symbol string with simulated errors."""
        rng, out = self._rng, []
        draws = rng.random((len(string), 3))
        for symbol, (error, kind, which) in zip(string, draws.tolist(), strict=True):
            if error >= ERROR:
                out.append(symbol)
                continue
            other = int(which * num_symbols) + FIRST
            if kind < 0.6:
                row = None if cumulative is None else cumulative[symbol - FIRST]
                out.append(other if row is None else int(np.searchsorted(row, which)) + FIRST)
            elif kind < 0.8:
                out += [symbol, other]
        return out or string[:1]

    def spelling_errors(self, letters: list[int]) -> list[int]:
        """Return a copy of a letter sequence with simulated spelling errors."""
        return self._errors(letters, self._num_letters, None)


def _glued(parts: Sequence[LettersAndPhones]) -> LettersAndPhones:
    letters = [letter for spelled, _ in parts for letter in spelled]
    phones = [phone for _, pronounced in parts for phone in pronounced]
    return letters, phones if all(pronounced for _, pronounced in parts) else []


def alphabet(texts: Iterable[str]) -> str:
    """Return the letters that occur in texts in alphabetical order, without letters rarer than `RARE`."""
    counts = Counter(letter for text in texts for letter in plain_letters(text))
    return "".join(sorted(letter for letter, count in counts.items() if count >= RARE * counts.total()))


def lexicon_entries(pronouncer: Pronouncer, texts: Iterable[str]) -> list[tuple[str, Phones]]:
    """Return ``(phrase, first pronunciation)`` for each distinct phrase that contains letters.

    The pronunciation is empty if it is unknown.
    """
    entries: list[tuple[str, Phones]] = []
    for text in dict.fromkeys(texts):
        try:
            sound = sum(pronouncer.of_phrase(Phrase(text))[0], ())
        except PronunciationError:
            sound = ()
        if plain_letters(text):
            entries.append((text, sound))
    return entries
