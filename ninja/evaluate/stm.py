"""Reader for references in NIST's STM format; they are matched with the utterances in Kaldi's ``segments``.

A line contains a file, channel, speaker, start, end, an optional label such as ``<o,f0,male>``, and words. Lines that
begin with ``;;`` are comments.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ninja.errors import FormatError, OptionError
from ninja.formats.kaldi.tables import Row, is_stm, read_fields, text_of
from ninja.formats.kaldi.tables import read_speakers as read_speakers  # re-exported by the package
from ninja.formats.kaldi.tables import read_text as read_text

IGNORED = "ignore_time_segment_in_scoring"
TOLERANCE = 0.05  # maximum difference of start and end times, seconds


def read_transcripts(
    path: str | os.PathLike[str], segments: Mapping[str, tuple[str, float, float]] | None = None
) -> dict[str, list[str]]:
    """Read transcripts in Kaldi's format (``read_text``) or in STM format, which requires `segments`.

    Raises:
        FormatError: See ``read_text`` and ``read_stm``.
        OptionError: The file is in STM format, and there are no segments.
    """
    return transcripts_of(list(read_fields(path)), path, segments)


def transcripts_of(
    rows: list[Row], path: str | os.PathLike[str], segments: Mapping[str, tuple[str, float, float]] | None
) -> dict[str, list[str]]:
    """Convert the lines of a file in Kaldi's format or in STM format to transcripts; see `read_transcripts`."""
    if not is_stm(rows, path):
        return text_of(rows, path)
    if segments is None:
        raise OptionError(f"{os.fspath(path)}: STM has no utterance ids; specify --segments")
    return _references(rows, path, segments)


def read_stm(path: str | os.PathLike[str], segments: Mapping[str, tuple[str, float, float]]) -> dict[str, list[str]]:
    """Read the reference for each utterance from an STM file.

    Args:
        path: The STM file.
        segments: ``(recording, start, end)`` for each utterance, in seconds (see ``read_segments``). The recording id
            can be the FILE in an STM line, or FILE-CHANNEL or FILE_CHANNEL.

    Returns:
        Words by utterance id. Lines marked as ignored in scoring are skipped.

    Raises:
        FormatError: A line is invalid, contains alternatives, matches no utterance in `segments`, or matches the same
            utterance as another line; or the file contains no reference.

    Source: NIST SCTK, doc/infmts.htm.
    """
    return _references(read_fields(path), path, segments)


def _references(
    rows: Iterable[Row], path: str | os.PathLike[str], segments: Mapping[str, tuple[str, float, float]]
) -> dict[str, list[str]]:
    references: dict[str, list[str]] = {}
    by_recording: dict[str, list[tuple[float, float, str]]] = {}
    for key, (recording, begin, end) in segments.items():
        by_recording.setdefault(recording, []).append((begin, end, key))
    for number, fields in rows:
        if not fields or fields[0].startswith(";;"):
            continue
        try:
            file, channel, _, first, last, *words = fields
            begin, end = float(first), float(last)
        except ValueError as error:
            message = "expected file, channel, speaker, start, end and words"
            raise FormatError(f"{message}, found {' '.join(fields)[:60]!r}", path, line=number) from error
        if words and words[0].startswith("<") and words[0].endswith(">"):  # any label, as in sclite
            words = words[1:]
        if [word.lower() for word in words] == [IGNORED]:
            continue
        if "{" in words:
            raise FormatError(
                "the line has alternatives { … / … }, which are not supported; keep one", path, line=number
            )
        names = (file, f"{file}-{channel}", f"{file}_{channel}")
        matches = [
            (abs(begin - at) + abs(end - to), key)
            for name in names
            for at, to, key in by_recording.get(name, ())
            if abs(begin - at) <= TOLERANCE and abs(end - to) <= TOLERANCE
        ]
        if not matches:
            message = f"no segment matches {file} {channel} from {begin:g} to {end:g} s"
            raise FormatError(f"{message}; segments and STM must have the same boundaries", path, line=number)
        key = min(matches)[1]
        if key in references:
            message = "another line refers to the same utterance; remove one of the lines"
            raise FormatError(message, path, line=number, key=key)
        references[key] = words
    if not references:
        raise FormatError("the file contains no reference", path)
    return references
