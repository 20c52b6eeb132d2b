"""Options for history across utterances: the preceding words in a recording, and prompts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import click

from ninja.cli.command import InputFile, given_on_command_line, grouped
from ninja.cli.options import reads, section
from ninja.errors import OptionError
from ninja.files.text import read_named
from ninja.rescoring.carry_over import MAX_WORDS, CarryOver
from ninja.rescoring.prompts import Prompts

_CARRY_OVER = click.option(
    "--carry-over", is_flag=True, help="Score each utterance with the preceding words of its recording as history."
)
_SEGMENTS = reads("--segments", "With --carry-over: recording and times of each utterance (Kaldi's segments).")
_CARRY_WORDS = click.option(
    "--carry-words",
    type=click.IntRange(0),
    default=MAX_WORDS,
    help="With --carry-over: maximum number of preceding words; 0 for no limit.",
)
history_of_speakers = section("History across utterances", _CARRY_OVER, _SEGMENTS, _CARRY_WORDS)


def history_across_utterances(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for history across utterances; the command receives them as ``carry_over``."""

    def carry_over_of(chosen: dict[str, Any], others: dict[str, Any]) -> CarryOver | None:
        return recordings(chosen["carry_over"], chosen["utt2spk"], chosen["segments"], chosen["carry_words"])

    return section(
        "History across utterances",
        _CARRY_OVER,
        reads(
            "--utt2spk", "With --carry-over: speaker of each utterance; the utterances of a speaker form one recording."
        ),
        _SEGMENTS,
        _CARRY_WORDS,
    )(grouped("carry_over", ("carry_over", "utt2spk", "segments", "carry_words"), carry_over_of)(command))


def recordings(is_on: bool, utt2spk: str | None, segments: str | None, words: int) -> CarryOver | None:
    """Return the recordings for ``--carry-over``; None without this option."""
    if not is_on:
        if utt2spk or segments or given_on_command_line(["carry_words"]):
            raise OptionError("--utt2spk, --segments and --carry-words require --carry-over")
        return None
    if utt2spk and segments:
        raise OptionError("--utt2spk cannot be used with --segments; both define recordings")
    if utt2spk:
        return CarryOver.from_utt2spk(utt2spk, words)
    return CarryOver.from_segments(segments, words) if segments else CarryOver(max_words=words)


class PromptType(InputFile):
    """Parameter type for prompts: a text, or a file that contains one or more prompts."""

    name = "text|file"

    def is_file(self, name: str) -> bool:
        """Return whether a value is the name of an existing file."""
        return os.path.isfile(name)


def prompts_before_utterances(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for prompts; the command receives them as ``prompts``."""

    def prompts(chosen: dict[str, Any], others: dict[str, Any]) -> Prompts | None:
        return prompts_of(chosen["prompt"], chosen["prompt_column"])

    return section(
        "History across utterances",
        click.option(
            "--prompt",
            type=PromptType(),
            help="Text, or a file with text, that causal Hugging Face models read before each utterance, such as its "
            "topic, names or previous turns.",
        ),
        click.option(
            "--prompt-column",
            metavar="N|NAME",
            help="Column of the prompts if --prompt is a tab-separated table: a number (2 or more) or a name in the "
            "header. The first column contains the utterance ids.",
        ),
    )(grouped("prompts", ("prompt", "prompt_column"), prompts)(command))


def prompts_of(prompt: str | None, column: str | None) -> Prompts | None:
    """Return the prompts that ``--prompt`` and ``--prompt-column`` specify; None without these options."""
    if prompt is None:
        if column is not None:
            raise OptionError("--prompt-column requires --prompt FILE, a table of prompts")
        return None
    if not PromptType().is_file(prompt):
        if column is not None or (not any(map(str.isspace, prompt)) and re.search(r"[/.]\w", prompt)):
            raise OptionError(f"{prompt}: no such file; --prompt must be an existing file, or several words of text")
        return Prompts(prompt)
    if column is not None:
        return Prompts.from_table(prompt, int(column) if column.isdecimal() else column)
    return Prompts(read_named(prompt))
