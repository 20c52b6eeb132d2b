"""Prompts: texts that a language model reads before the words of an utterance, such as a topic or previous turns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ninja.errors import FormatError, LatticeError, OptionError
from ninja.files.text import read_named


@dataclass(frozen=True, slots=True)
class Prompts:
    """One prompt for all utterances, or one per utterance; models without prompt support ignore prompts."""

    text: str = ""  # prompt of all utterances, if `by_key` is None
    by_key: Mapping[str, str] | None = None  # utterance id → prompt; an empty string means no prompt
    path: str | None = None  # file from which `by_key` was read, for messages

    @classmethod
    def from_table(cls, path: str | os.PathLike[str], column: int | str = 2) -> Prompts:
        r"""Read a tab-separated table whose first column contains utterance ids.

        In a prompt, ``\n``, ``\t`` and ``\\`` mean a line break, a tab and a backslash.

        Args:
            path: Path of the file, which can be compressed with gzip.
            column: Column that contains the prompts: either its 1-based number (at least 2) or its name in the header
                line.

        Raises:
            FormatError: The column is missing from the header or from a line, an id occurs twice, or the file is not
                UTF-8.
            OptionError: The column number is below 2.
        """
        name = os.fspath(path)
        rows = read_named(path).removesuffix("\n").split("\n")
        first = 0
        if isinstance(column, str):
            header = rows[0].rstrip("\r").split("\t")
            if column not in header[1:]:
                columns = ", ".join(header[1:]) or "none"
                raise FormatError(f"there is no column {column!r}; the header contains {columns}", name, line=1)
            index, first = header.index(column, 1), 1
        elif column < 2:
            raise OptionError(f"the prompt column is {column}, but must be 2 or more; column 1 is the utterance id")
        else:
            index = column - 1
        by_key: dict[str, str] = {}
        for line, row in enumerate(rows[first:], start=first + 1):
            fields = row.rstrip("\r").split("\t")
            if fields == [""]:
                continue
            if len(fields) <= index:
                raise FormatError(
                    f"expected at least {index + 1} columns separated by tabs, found {len(fields)}", name, line=line
                )
            if fields[0] in by_key:
                raise FormatError(f"utterance {fields[0]!r} occurs twice", name, line=line)
            by_key[fields[0]] = _unescaped(fields[index])
        return cls(by_key=by_key, path=name)

    def of(self, key: str) -> str:
        """Return the prompt for an utterance; an empty string means that the utterance has no prompt.

        Raises:
            LatticeError: The prompts are specified per utterance, and this utterance is missing.
        """
        if self.by_key is None:
            return self.text
        if key not in self.by_key:
            raise LatticeError(
                f"this utterance is missing from the prompts{f' in {self.path}' if self.path else ''}", key=key
            )
        return self.by_key[key]


def _unescaped(text: str) -> str:
    r"""Replace the escape sequences ``\n``, ``\t`` and ``\\`` with the characters that they represent."""
    parts = (part.replace("\\n", "\n").replace("\\t", "\t") for part in text.split("\\\\"))
    return "\\".join(parts)
