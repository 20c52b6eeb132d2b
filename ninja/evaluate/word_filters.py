"""Changes of transcripts before they are scored: words left out, Kaldi's filters, NIST's global mapping files."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from ninja.errors import FormatError, InputError
from ninja.evaluate.normal_form import composed
from ninja.files import text as utf8

Line = tuple[str, Sequence[str]]  # key and words
Rule = tuple[tuple[str, ...], tuple[str, ...]]  # words, and those in their place
_RULE = re.compile(r"(\[[^\]]*\]|[^\[\]=]+?) ?=> ?(\[[^\]]*\]|\{.*?\}|[^\[\]/{]*?) ?(?:/ ?(.*?))?")  # of single blanks
_CASE_SENSITIVE = re.compile(r"\*\s*case_sensitive\s*=\s*['\"]T['\"]", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"\[\s*\]\s*__\s*\[\s*\]")


@dataclass(frozen=True, slots=True)
class GlobalMapping:
    """Rules of a global mapping file: at each word the first rule that fits is applied, from left to right."""

    rules: Mapping[str, Sequence[Rule]]  # by their first word, in the order of the file
    case_sensitive: bool = False

    def words(self, words: Sequence[str]) -> list[str]:
        """Return words with the rules applied; what a rule wrote is not looked at again."""
        made: list[str] = []
        place = 0
        compared = words if self.case_sensitive else [word.lower() for word in words]
        while place < len(words):
            for left, right in self.rules.get(compared[place], ()):
                if tuple(compared[place : place + len(left)]) == left:
                    made += right
                    place += len(left)
                    break
            else:
                made.append(words[place])
                place += 1
        return made


@dataclass(frozen=True, slots=True)
class WordFilter:
    """Changes of transcripts before scoring, applied in this order; words are put into composed form (NFC) first.

    Args:
        script: Program that reads lines of a key and words and writes them changed, as Kaldi's
            ``local/wer_output_filter``; a file that cannot be executed is a script of GNU sed, whose
            commands ``e``, ``r`` and ``w`` are refused.
        mapping: Rules of a global mapping file (``read_glm``).
        ignored: Words left out.
    """

    script: str | None = None
    mapping: GlobalMapping | None = None
    ignored: Collection[str] = ()

    def lines(self, lines: Sequence[Line]) -> list[list[str]]:
        """Return the words of each line, changed.

        Raises:
            InputError: The script cannot be run, or fails.
            FormatError: The script does not return each line with its key.
        """
        words = composed([words for _, words in lines])
        if self.script is not None and lines:
            words = _run(self.script, [(key, line) for (key, _), line in zip(lines, words, strict=True)])
        if self.mapping is not None:
            words = [self.mapping.words(each) for each in words]
        ignored = {normalize("NFC", word) for word in self.ignored}
        return [[word for word in each if word not in ignored] for each in words]

    def texts(self, texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return transcripts by key, changed; as ``lines``."""
        return dict(zip(texts, self.lines(list(texts.items())), strict=True))


def _run(script: str, lines: Sequence[Line]) -> list[list[str]]:
    """Run a filter as Kaldi's scoring scripts do."""
    if not os.path.isfile(script):
        raise InputError("no such file", script)
    command = [os.path.abspath(script)] if os.access(script, os.X_OK) else ["sed", "--sandbox", "-f", script]
    given = "".join(f"{' '.join([key, *words])}\n" for key, words in lines)
    try:
        done = subprocess.run(command, input=given.encode("utf-8", "surrogateescape"), capture_output=True, check=False)
    except OSError as error:
        raise InputError(f"cannot be run: {error.strerror or error}", script) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
        advice = (
            ""
            if command[0] != "sed"
            else "; it is read as a script of GNU sed without its commands e, r and w: chmod +x makes another a program"
        )
        raise InputError(f"ended with exit code {done.returncode}: {said}{advice}", script)
    rows = [row.split() for row in done.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]]
    if [row[:1] for row in rows] != [[key] for key, _ in lines]:
        raise FormatError(f"{len(lines)} lines went in, but the same keys do not come out in their order", script)
    return [row[1:] for row in rows]


def read_glm(path: str | os.PathLike[str]) -> GlobalMapping:
    """Read a global mapping file: rules such as ``[UM] => [%HESITATION] / [ ] __ [ ]``.

    Raises:
        FormatError: A line is no rule, gives alternatives, or asks for other neighbours than blanks.

    Source: NIST SCTK, the rule files of rfilter1 and csrfilt.sh.
    """
    rules: dict[str, list[Rule]] = {}
    rows = [row.split(";;")[0].strip() for row in utf8.read(path).split("\n")]
    exact = any(_CASE_SENSITIVE.fullmatch(row) for row in rows)
    for number, row in enumerate(rows, start=1):
        if not row or row[0] in ";*":
            continue
        found = _RULE.fullmatch(" ".join(row.split()))
        if found is None:
            raise FormatError(f"{row!r} is no rule such as [UM] => [%HESITATION] / [ ] __ [ ]", path, line=number)
        left, right, context = found.groups()
        if right.startswith("{"):
            raise FormatError(f"{row!r} gives alternatives, which are not served; keep one", path, line=number)
        if context is not None and not _BETWEEN_WORDS.fullmatch(context.strip()):
            raise FormatError(f"{row!r} asks for neighbours; only / [ ] __ [ ] is served", path, line=number)
        words = left.strip("[] \t") if exact else left.strip("[] \t").lower()
        if not words:
            raise FormatError(f"{row!r} replaces nothing", path, line=number)
        rules.setdefault(words.split()[0], []).append((tuple(words.split()), tuple(right.strip("[] \t").split())))
    return GlobalMapping(rules, exact)
