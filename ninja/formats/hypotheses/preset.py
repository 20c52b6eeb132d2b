"""``Preset``: the fields of utterances, hypotheses, words, times, confidences and speakers in a recogniser's JSON."""

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
    """The path of the words of a hypothesis, and their fields.

    Fields are paths relative to an item; if there are several, the first that an item has is read. A number in a field
    whose name ends in ``Milliseconds`` has this unit.
    """

    items: str  # path of the items in the hypothesis; empty if the fields below are lists of equal length
    text: tuple[str, ...] = ("word",)  # all of these fields are rewritten
    start: tuple[str, ...] = ("start",)
    end: tuple[str, ...] = ("end",)
    duration: tuple[str, ...] = ()  # used if there is no end
    unit: float = 1.0  # unit of numbers in seconds; texts such as "1.2s", "PT1.2S" and "1.2" are in seconds
    confidence: tuple[str, ...] = ()
    speaker: tuple[str, ...] = ()
    # Items that are parts of words. "spelled": those of a word of the text spell it, or each is a word; "text": they
    # spell it, or words begin with a blank or "▁"; "punctuation": items without times belong to the word before them.
    join: Join = "words"
    beside: tuple[str, ...] = ()  # other lists of the same length, where fields are lists
    skip: str | None = None  # regular expression of texts that are not words
    # order of the items of several lists: that of the file, of their times, or of the channels of the lists
    order: Order = "file"


@dataclass(frozen=True, slots=True)
class Preset:
    """The fields of a recogniser's JSON files.

    Paths are relative to the document, an utterance, a hypothesis or a word: ``results[].alternatives[0].text`` is the
    text of the first alternative of each result.
    """

    name: str
    about: str
    marks: tuple[tuple[str, ...], ...]  # paths that only such files contain: all of one tuple
    # Path of the utterances in the document, or several with "|" between them; the document is one itself by default.
    utterances: str = ""
    key: tuple[str, ...] = ()  # utterance id  [default: the name of the file, and a number]
    hypotheses: str = ""  # path of the list of alternatives in the utterance; by default, the utterance is the only one
    score: tuple[str, ...] = ()  # score of a hypothesis, if there are several
    meaning: Meaning = "probability"  # meaning of the score
    may_lack_text: bool = False  # utterances without a text are silent
    text: tuple[str, ...] = ("text",)  # forms of the text in a hypothesis: the first is read, all are rewritten
    words: tuple[WordFields, ...] = ()  # lists of words in a hypothesis: the first that exists is read
    start: tuple[str, ...] = ()  # start of the utterance
    end: tuple[str, ...] = ()
    duration: tuple[str, ...] = ()
    unit: float = 1.0  # unit of the start, end and duration of an utterance, in seconds
    in_order: bool = True  # utterances of a channel are sorted by their begin
    speaker: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    all_text: tuple[str, ...] = ()  # paths in the document of texts of all utterances
    all_words: tuple[WordFields, ...] = ()  # lists of the words of all utterances, from the document
    applies: Callable[[Any], bool] = lambda document: True  # distinguishes variants with the same name
    aliases: tuple[str, ...] = ()
    # such files are read in a folder that contains lattices; other files describe its data
    beside_lattices: bool = True
    extensions: tuple[str, ...] = (".json", ".jsonl")
    new_file: Callable[[WriteSettings], Encoder] | None = None  # encoder of lists of other formats
