"""Reader and writer for ESPnet n-best lists: folders 1best_recog, 2best_recog, … with files text, score and token."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ninja.errors import FormatError, InputError
from ninja.files.stream import content_of
from ninja.formats.content import check_encoding
from ninja.formats.format import Field, Format, Read, Write, WriteSettings
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.nemo import ScoreAs, check_score_as, costs
from ninja.formats.nbest.text_rows import number, rows, split
from ninja.formats.nbest.writing import ListOptions, recoded, scaled, spelled
from ninja.formats.textual import kept_costs
from ninja.lattice.nbest import Hypothesis, NBest, sentence
from ninja.lattice.symbols import SymbolTable

Units = Literal["text", "token"]
_FOLDER = re.compile(r"([1-9][0-9]{0,5})best_recog")
_TENSOR = re.compile(r"tensor\(([^,()]+)(?:, device='[^']*')?(?:, dtype=[a-z0-9.]+)?\)")


@dataclass(frozen=True, slots=True)
class EspnetOptions:
    """Options for reading ESPnet folders."""

    units: Units = "text"  # name of the file from which the words are read
    score_as: ScoreAs = "acoustic"  # type of cost that the score becomes
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)


def read_espnet(
    ranks: Mapping[int, tuple[bytes, bytes]],
    path: str | None = None,
    *,
    score_as: ScoreAs = "acoustic",
    encoding: str = "utf-8",
    units: Units = "text",
) -> list[NBest]:
    """Read n-best lists from the contents of the files ``text`` (or ``token``) and ``score`` for each 1-based rank.

    The score is the weighted sum of the natural log-probabilities of all models in the search; higher is better. The
    argument `units` is the name of the file with the words ("text" or "token"), for messages.

    Raises:
        FormatError: A line is invalid, the last line lacks a newline, an utterance occurs twice or lacks its score or
            sentence, or there are no utterances.

    Source: ESPnet, espnet2/bin/asr_inference.py.
    """
    check_score_as(score_as)
    hypotheses: dict[str, list[Hypothesis]] = {}
    for rank in sorted(ranks):
        place = f"{path or ''}{'/' if path else ''}{rank}best_recog"
        text, score = ranks[rank]
        scores = _scores(score, f"{place}/score", encoding)
        keys = set()
        for line, row in rows(text, f"{place}/{units}", encoding):
            key, *words = split(row) or [""]
            if not key or key in keys:
                message = f"utterance {key!r} occurs twice" if key else "the line is empty; an utterance id is needed"
                raise FormatError(message, f"{place}/{units}", line=line)
            if key not in scores:
                raise FormatError("the utterance has a sentence, but no score", f"{place}/score", key=key)
            keys.add(key)
            hypotheses.setdefault(key, []).append(sentence(words, *costs(0.0 - scores[key], score_as), line))
        if len(keys) < len(scores):
            missing = next(key for key in scores if key not in keys)
            raise FormatError("the utterance has a score, but no sentence", f"{place}/{units}", key=missing)
    if not hypotheses:
        raise FormatError("there are no utterances", path)
    return [NBest(key, tuple(entries)) for key, entries in hypotheses.items()]


def read_espnet_folder(path: str | os.PathLike[str], options: EspnetOptions = EspnetOptions()) -> list[NBest]:
    """Read the n-best lists from a folder that contains folders ``1best_recog``, ``2best_recog`` and so on.

    Raises:
        FormatError: One of these folders is missing; see also ``read_espnet``.
        InputError: The folder cannot be read.
    """
    name = os.fspath(path)
    try:
        entries = os.listdir(name)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", name) from error
    numbers = sorted(int(match[1]) for match in map(_FOLDER.fullmatch, entries) if match)
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise FormatError(f"expected folders 1best_recog, 2best_recog, …, found numbers {numbers[:9]}", name)
    ranks = {}
    for rank in numbers:
        text, score = (content_of(f"{name}/{rank}best_recog/{file}") for file in (options.units, "score"))
        ranks[rank] = text, score
    return read_espnet(ranks, name, score_as=options.score_as, encoding=options.encoding, units=options.units)


def write_espnet(nbest: NBest, words: SymbolTable | None = None) -> dict[str, bytes]:
    """Return the content of each file in an ESPnet folder; scores are negated sums of graph and acoustic costs."""
    files = {}
    for rank, hypothesis in enumerate(nbest.hypotheses, start=1):
        text = " ".join([nbest.key, *spelled(hypothesis, words, nbest.key)])
        score = f"{nbest.key} {0.0 - hypothesis.graph_cost - hypothesis.acoustic_cost:.9g}"
        for name, line in (("text", text), ("score", score)):
            files[f"{rank}best_recog/{name}"] = f"{line}\n".encode("utf-8", "surrogateescape")
    return files


def _scores(content: bytes, path: str, encoding: str) -> dict[str, float]:
    scores: dict[str, float] = {}
    for line, row in rows(content, path, encoding):
        key, _, numbers = row.strip(" \t").partition(" ")
        match = _TENSOR.fullmatch(numbers.strip(" "))
        value = number(match[1] if match else numbers.strip(" "), "an utterance id and its score", path, line)
        if key in scores:
            raise FormatError(f"utterance {key!r} occurs twice", path, line=line)
        scores[key] = value
    return scores


def _encode(nbest: NBest, settings: WriteSettings) -> dict[str, bytes]:
    files = write_espnet(scaled(nbest, settings.options), settings.words)
    return {name: recoded(content, settings.encoding, nbest.key) for name, content in files.items()}


def _stored_fields(keeps: frozenset[Field], options: ListOptions) -> frozenset[Field]:
    return kept_costs(keeps, acoustic_scale=options.acoustic_scale)


FORMAT = Format(
    name="espnet",
    about="ESPnet folder with 1best_recog, 2best_recog, …",
    holds="nbest",
    of_folder=lambda path: os.path.isdir(os.path.join(path, "1best_recog")),
    read=Read(list_entries(lambda content, options: read_espnet_folder(content.path, options)), EspnetOptions),
    keeps=frozenset({"key", "graph", "acoustic", "unscaled", "names"}),
    write=Write(
        encode_files=_encode,
        options=ListOptions,
        files="named",
        keeps=_stored_fields,
        key_is_field=True,
        unique_keys=True,
        encoded_keys=True,
    ),
)
