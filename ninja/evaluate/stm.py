"""References in NIST's STM, cut as the utterances of Kaldi's ``segments`` are.

A line is a file, channel, speaker, begin, end, an optional label ``<o,f0,male>``, and words; ``;;`` begins a
comment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ninja.errors import FormatError, OptionError
from ninja.formats.kaldi.tables import Row, is_stm, read_fields, text_of

IGNORED = "ignore_time_segment_in_scoring"
NEAR = 0.05  # seconds by which begin and end may differ


def read_transcripts(
    path: str | os.PathLike[str], segments: Mapping[str, tuple[str, float, float]] | None = None
) -> dict[str, list[str]]:
    """Read transcripts as ``read_text`` does, or STM, whose lines are the utterances of `segments`.

    Raises:
        FormatError: As ``read_text`` and ``read_stm`` raise.
        OptionError: It is STM, and there are no segments.
    """
    rows = list(read_fields(path))
    if not is_stm(rows, path):
        return text_of(rows, path)
    if segments is None:
        raise OptionError(f"{os.fspath(path)}: this is STM, whose lines have no utterance ids; give their --segments")
    return _references(rows, path, segments)


def read_stm(path: str | os.PathLike[str], segments: Mapping[str, tuple[str, float, float]]) -> dict[str, list[str]]:
    """Read references of utterances.

    Args:
        segments: Recording, begin and end in seconds of each utterance (``read_segments``). A recording is that of a
            line's file, or FILE-CHANNEL or FILE_CHANNEL.

    Returns:
        Words by utterance id. Stretches that are to be ignored have no reference.

    Raises:
        FormatError: A line is no STM, gives alternatives, or is no utterance of `segments`.

    Source: NIST SCTK, doc/infmts.htm.
    """
    return _references(read_fields(path), path, segments)


def _references(
    rows: Iterable[Row], path: str | os.PathLike[str], segments: Mapping[str, tuple[str, float, float]]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    cut: dict[str, list[tuple[float, float, str]]] = {}
    for key, (recording, begin, end) in segments.items():
        cut.setdefault(recording, []).append((begin, end, key))
    for number, fields in rows:
        if not fields or fields[0].startswith(";;"):
            continue
        try:
            file, channel, _, first, last, *words = fields
            begin, end = float(first), float(last)
        except ValueError as error:
            message = "expected file, channel, speaker, begin, end and words"
            raise FormatError(f"{message}, found {' '.join(fields)[:60]!r}", path, line=number) from error
        if words and words[0].startswith("<") and words[0].endswith(">"):  # as sclite: a label, whatever it says
            words = words[1:]
        if [word.lower() for word in words] == [IGNORED]:
            continue
        if "{" in words:
            raise FormatError(
                "the line gives alternatives { … / … }, which are not served; keep one", path, line=number
            )
        names = (file, f"{file}-{channel}", f"{file}_{channel}")
        near = [
            (abs(begin - at) + abs(end - to), key)
            for name in names
            for at, to, key in cut.get(name, ())
            if abs(begin - at) <= NEAR and abs(end - to) <= NEAR
        ]
        if not near:
            message = f"no utterance of the segments is {file} {channel} from {begin:g} to {end:g} s"
            raise FormatError(f"{message}: they must be cut as the STM is", path, line=number)
        key = min(near)[1]
        if key in found:
            raise FormatError("another line is this utterance, too", path, line=number, key=key)
        found[key] = words
    if not found:
        raise FormatError("there is no reference in it", path)
    return found
