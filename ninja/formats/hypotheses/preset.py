"""``Preset``: where a recogniser's JSON has utterances, hypotheses, words, times, confidences and speakers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ninja.formats.format import Encoder, WriteSettings

Join = Literal["words", "spelled", "text", "punctuation"]
Order = Literal["file", "time", "channel"]
Meaning = Literal["probability", "logprob"]


@dataclass(frozen=True, slots=True)
class WordFields:
    """The words of a hypothesis, and the fields of each.

    Fields are paths from an item; of several, the first that an item has is read. A number of a field whose name ends
    in ``Milliseconds`` is of this unit.
    """

    items: str  # path of the items from the hypothesis; empty if the fields below are lists of equal length
    text: tuple[str, ...] = ("word",)  # all are rewritten
    start: tuple[str, ...] = ("start",)
    end: tuple[str, ...] = ("end",)
    duration: tuple[str, ...] = ()  # if there is no end
    unit: float = 1.0  # seconds of a number; texts such as "1.2s", "PT1.2S", "1.2" are seconds
    confidence: tuple[str, ...] = ()
    speaker: tuple[str, ...] = ()
    # Items that are parts of words. "spelled": those of a word of the text spell it, or each is a word; "text": they
    # spell it, or words begin with a blank or "▁"; "punctuation": items without times belong to the word before them.
    join: Join = "words"
    beside: tuple[str, ...] = ()  # other lists of the same length, where fields are lists
    skip: str | None = None  # expression of texts that are no words
    order: Order = "file"  # of the items of several lists: that of the file, of their times, or of the lists' channels


@dataclass(frozen=True, slots=True)
class Preset:
    """The fields of a recogniser's JSON files.

    Paths name fields from the document, an utterance, a hypothesis or a word down: ``results[].alternatives[0].text``
    is that of the first alternative of each result.
    """

    name: str
    about: str
    marks: tuple[tuple[str, ...], ...]  # paths that only such files have; all those of one tuple
    # Path of the utterances in the document, or several with "|" between them; the document is one itself by default.
    utterances: str = ""
    key: tuple[str, ...] = ()  # utterance id  [default: the name of the file, and a number]
    hypotheses: str = ""  # path of the list of alternatives in the utterance, which is one itself by default
    score: tuple[str, ...] = ()  # of a hypothesis among several
    meaning: Meaning = "probability"  # of the score
    may_lack_text: bool = False  # utterances without a text are silence
    text: tuple[str, ...] = ("text",)  # forms of the text in a hypothesis: the first is read, all are rewritten
    words: tuple[WordFields, ...] = ()  # lists of words in a hypothesis: the first that exists is read
    start: tuple[str, ...] = ()  # of the utterance
    end: tuple[str, ...] = ()
    duration: tuple[str, ...] = ()
    unit: float = 1.0  # seconds of a number as the start, the end and the duration of an utterance
    in_order: bool = True  # utterances of one channel begin one after the other
    speaker: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    all_text: tuple[str, ...] = ()  # paths in the document of texts of all utterances
    all_words: tuple[WordFields, ...] = ()  # lists of the words of all utterances, from the document
    applies: Callable[[Any], bool] = lambda document: True  # tells variants of one name apart
    aliases: tuple[str, ...] = ()
    beside_lattices: bool = True  # such files are read in a folder with lattices; others describe the data there
    extensions: tuple[str, ...] = (".json", ".jsonl")
    new_file: Callable[[WriteSettings], Encoder] | None = None  # writer of lists of other formats
