"""Presets, which specify how a recogniser's JSON stores utterances, hypotheses, words, times and so on."""

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
    """The path of the word list in a hypothesis, and the fields of its items.

    Fields are paths relative to an item. If there are several paths for a field, the first path that exists in the item
    is used. If the name of a field ends in ``Milliseconds``, its values are in milliseconds.
    """

    items: str  # path of the items in the hypothesis; empty if the fields below are lists of equal length
    text: tuple[str, ...] = ("word",)  # all of these fields are rewritten
    start: tuple[str, ...] = ("start",)
    end: tuple[str, ...] = ("end",)
    duration: tuple[str, ...] = ()  # used if there is no end
    unit: float = 1.0  # unit of numbers (1200, "1200") in seconds; texts such as "1.2s" and "PT1.2S" are in seconds
    confidence: tuple[str, ...] = ()
    speaker: tuple[str, ...] = ()
    # How items form words. "words": each item is a word. "spelled": items are combined if they spell the words of the
    # text; if not, each item is a word. "text": as "spelled", but if the items do not spell the words, an item that
    # starts with a blank or "▁" begins a word. "punctuation": an item without times belongs to the preceding word.
    join: Join = "words"
    beside: tuple[str, ...] = ()  # other lists of the same length, if the fields are lists
    skip: str | None = None  # regular expression of texts that are not words
    # Order in which several lists are joined: as in the file, by the times of items, or by the channels of lists.
    order: Order = "file"


@dataclass(frozen=True, slots=True)
class Preset:
    """The fields in a recogniser's JSON files.

    Paths are relative to the document, an utterance, a hypothesis or a word: ``results[].alternatives[0].text`` is the
    text of the first alternative of each result.
    """

    name: str
    about: str
    marks: tuple[tuple[str, ...], ...]  # a file has this format if it contains all paths of one of these tuples
    # Path of the utterances in the document, or several paths separated by "|"; by default, the document is the only
    # utterance.
    utterances: str = ""
    key: tuple[str, ...] = ()  # utterance id  [default: the name of the file, and a number]
    hypotheses: str = ""  # path of the alternatives in the utterance; by default, the utterance is the only alternative
    score: tuple[str, ...] = ()  # score of a hypothesis, if there are several
    meaning: Meaning = "probability"  # meaning of the score
    may_lack_text: bool = False  # utterances without a text are silent
    text: tuple[str, ...] = ("text",)  # forms of the text in a hypothesis: the first is read, all are rewritten
    words: tuple[WordFields, ...] = ()  # lists of words in a hypothesis: the first that exists is read
    start: tuple[str, ...] = ()  # start of the utterance
    end: tuple[str, ...] = ()
    duration: tuple[str, ...] = ()
    unit: float = 1.0  # unit of the start, end and duration of an utterance, in seconds
    in_order: bool = True  # utterances of a channel are sorted by their start times
    speaker: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    all_text: tuple[str, ...] = ()  # paths of texts that cover all utterances
    all_words: tuple[WordFields, ...] = ()  # lists that cover the words of all utterances
    applies: Callable[[Any], bool] = lambda document: True  # distinguishes variants with the same name
    aliases: tuple[str, ...] = ()
    # Whether files of this format are read from a folder that also contains lattices; if not, they are skipped.
    beside_lattices: bool = True
    extensions: tuple[str, ...] = (".json", ".jsonl")
    new_file: Callable[[WriteSettings], Encoder] | None = None  # encoder of lists of other formats
