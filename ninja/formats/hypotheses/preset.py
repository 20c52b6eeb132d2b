"""Presets, which describe how the JSON of a recogniser stores utterances, hypotheses, words and times."""

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
    text: tuple[str, ...] = ("word",)  # text of the item: the first field that exists is read, all are rewritten
    start: tuple[str, ...] = ("start",)
    end: tuple[str, ...] = ("end",)
    duration: tuple[str, ...] = ()  # used if the item has no end
    unit: float = 1.0  # unit of times that are numbers (1200, "1200"), in seconds; "1.2s" and "PT1.2S" are in seconds
    confidence: tuple[str, ...] = ()
    speaker: tuple[str, ...] = ()
    # How items form words. "words": each item is a word. "spelled": items are combined if they spell the words of the
    # text; if not, each item is a word. "text": like "spelled", but if the items do not spell the words, an item that
    # starts with a space or "▁" begins a word. "punctuation": an item without times belongs to the preceding word.
    join: Join = "words"
    beside: tuple[str, ...] = ()  # additional lists, which must have the same length, if each field is a list
    skip: str | None = None  # regular expression for texts that are not words
    # Order of items from several lists: as in the file, by the times of the items, or by the channels of the lists.
    order: Order = "file"


@dataclass(frozen=True, slots=True)
class Preset:
    """The names and meanings of the fields in the JSON files of a recogniser.

    Paths are relative to the document, an utterance, a hypothesis or a word. For example,
    ``results[].alternatives[0].text`` is the text of the first alternative of each result.
    """

    name: str
    about: str
    marks: tuple[tuple[str, ...], ...]  # a file has this format if it contains all paths of one of these tuples
    # Path of the utterances in the document, or several paths separated by "|"; by default, the document is a single
    # utterance.
    utterances: str = ""
    key: tuple[str, ...] = ()  # utterance id  [default: the file name and a number]
    hypotheses: str = ""  # path of the hypotheses in the utterance; by default, the utterance is the only hypothesis
    score: tuple[str, ...] = ()  # score of a hypothesis, which is ignored if there is only one hypothesis
    meaning: Meaning = "probability"  # whether the score is a probability or a log-probability
    may_lack_text: bool = False  # whether an utterance without a text is valid (no words were recognised)
    text: tuple[str, ...] = ("text",)  # variants of the text in a hypothesis: the first is read, all are rewritten
    words: tuple[WordFields, ...] = ()  # word lists in a hypothesis: the first that exists is read
    start: tuple[str, ...] = ()  # start of the utterance
    end: tuple[str, ...] = ()
    duration: tuple[str, ...] = ()
    unit: float = 1.0  # unit of the start, end and duration of an utterance, in seconds
    in_order: bool = True  # whether the utterances of a channel must be in the order of their start times
    speaker: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    all_text: tuple[str, ...] = ()  # paths of texts that span all utterances
    all_words: tuple[WordFields, ...] = ()  # word lists that span all utterances
    applies: Callable[[Any], bool] = lambda document: True  # selects one of several presets with the same name
    aliases: tuple[str, ...] = ()
    # Whether files of this format are read from a folder that also contains lattices; if not, they are skipped.
    beside_lattices: bool = True
    extensions: tuple[str, ...] = (".json", ".jsonl")
    new_file: Callable[[WriteSettings], Encoder] | None = None  # creates an encoder for lists from other formats
