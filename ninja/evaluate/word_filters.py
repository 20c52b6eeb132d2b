"""Transcript filters applied before scoring: ignored words, Kaldi filter scripts and NIST global mapping files."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from ninja.errors import FormatError, InputError
from ninja.evaluate.normal_form import composed
from ninja.files.stream import text_of
from ninja.files.text import line_fields

Line = tuple[str, Sequence[str]]  # key and words
Rule = tuple[tuple[str, ...], tuple[str, ...]]  # words, and the words that replace them
_RULE = re.compile(
    r"(\[[^\]]*\]|[^\[\]=]+?) ?=> ?(\[[^\]]*\]|\{.*?\}|[^\[\]/{]*?) ?(?:/ ?(.*?))?"
)  # matches lines in which all spaces are single
_CASE_SENSITIVE = re.compile(r"\*\s*case_sensitive\s*=\s*['\"]T['\"]", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"\[\s*\]\s*__\s*\[\s*\]")


@dataclass(frozen=True, slots=True)
class GlobalMapping:
    """The rules in a global mapping file. At each word, from left to right, the first rule that matches is applied."""

    rules: Mapping[str, Sequence[Rule]]  # rules by their first word, in the order of the file
    case_sensitive: bool = False

    def words(self, words: Sequence[str]) -> list[str]:
        """Apply the rules to a sentence; rules are not applied to replacements."""
        mapped: list[str] = []
        index = 0
        compared = words if self.case_sensitive else [word.lower() for word in words]
        while index < len(words):
            for pattern, replacement in self.rules.get(compared[index], ()):
                if tuple(compared[index : index + len(pattern)]) == pattern:
                    mapped += replacement
                    index += len(pattern)
                    break
            else:
                mapped.append(words[index])
                index += 1
        return mapped


@dataclass(frozen=True, slots=True)
class WordFilter:
    """Filters applied to transcripts before scoring, in the order of the fields, after Unicode normalisation (NFC).

    Args:
        script: Program that reads lines with a key and words, and writes the changed lines, such as Kaldi's
            ``local/wer_output_filter``. A file that is not executable is run as a GNU sed script, in which the commands
            ``e``, ``r`` and ``w`` are not allowed.
        mapping: Rules from a global mapping file (``read_glm``).
        ignored: Words to remove.
    """

    script: str | None = None
    mapping: GlobalMapping | None = None
    ignored: Collection[str] = ()

    def lines(self, lines: Sequence[Line]) -> list[list[str]]:
        """Apply the filters to lines and return the remaining words of each line.

        Raises:
            InputError: The script cannot be run, or fails.
            FormatError: The script's output does not contain the keys of the lines in the same order.
        """
        words = composed([words for _, words in lines])
        if self.script is not None and lines:
            words = _run(self.script, [(key, line) for (key, _), line in zip(lines, words, strict=True)])
        if self.mapping is not None:
            words = [self.mapping.words(sentence) for sentence in words]
        ignored = {normalize("NFC", word) for word in self.ignored}
        return [[word for word in sentence if word not in ignored] for sentence in words]

    def texts(self, texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Apply the filters to transcripts, keyed by utterance id; raise the same exceptions as ``lines``."""
        return dict(zip(texts, self.lines(list(texts.items())), strict=True))


def _run(script: str, lines: Sequence[Line]) -> list[list[str]]:
    """Run a filter script in the same way as Kaldi's scoring scripts, and return the words of each line."""
    if not os.path.isfile(script):
        raise InputError("no such file", script)
    command = [os.path.abspath(script)] if os.access(script, os.X_OK) else ["sed", "--sandbox", "-f", script]
    text = "".join(f"{' '.join([key, *words])}\n" for key, words in lines)
    try:
        process = subprocess.run(
            command, input=text.encode("utf-8", "surrogateescape"), capture_output=True, check=False
        )
    except OSError as error:
        raise InputError(f"the script cannot be run: {error.strerror or error}", script) from error
    if process.returncode:
        message = process.stderr.decode("utf-8", "replace").strip().split("\n")[0]
        advice = (
            ""
            if command[0] != "sed"
            else "; files that are not executable are run by GNU sed, without e, r and w; make programs executable"
        )
        raise InputError(f"the script ended with exit code {process.returncode}: {message}{advice}", script)
    rows = [line_fields(row) for row in process.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]]
    if [row[:1] for row in rows] != [[key] for key, _ in lines]:
        message = (
            f"the output of the script does not contain the keys of the {len(lines)} input lines in the same order"
        )
        raise FormatError(message, script)
    return [row[1:] for row in rows]


def read_glm(path: str | os.PathLike[str]) -> GlobalMapping:
    """Read a global mapping file, which has rules such as ``[UM] => [%HESITATION] / [ ] __ [ ]``.

    Raises:
        FormatError: A line is not a rule, contains alternatives, or requires a context other than word boundaries.

    Source: NIST SCTK, the rule files of rfilter1 and csrfilt.sh.
    """
    rules: dict[str, list[Rule]] = {}
    rows = [row.split(";;")[0].strip() for row in text_of(path).split("\n")]
    exact = any(_CASE_SENSITIVE.fullmatch(row) for row in rows)
    for number, row in enumerate(rows, start=1):
        if not row or row[0] in ";*":
            continue
        match = _RULE.fullmatch(" ".join(row.split()))
        if match is None:
            raise FormatError(f"{row!r} is not a rule such as [UM] => [%HESITATION] / [ ] __ [ ]", path, line=number)
        pattern, replacement, context = match.groups()
        if replacement.startswith("{"):
            raise FormatError(f"{row!r} has alternatives, which are not supported; keep one", path, line=number)
        if context is not None and not _BETWEEN_WORDS.fullmatch(context.strip()):
            raise FormatError(f"{row!r} requires a context; only / [ ] __ [ ] is supported", path, line=number)
        words = pattern.strip("[] \t") if exact else pattern.strip("[] \t").lower()
        if not words:
            raise FormatError(f"{row!r} replaces nothing; add words before =>", path, line=number)
        rules.setdefault(words.split()[0], []).append((tuple(words.split()), tuple(replacement.strip("[] \t").split())))
    return GlobalMapping(rules, exact)
