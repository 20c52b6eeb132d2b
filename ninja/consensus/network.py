"""Confusion networks with words spelled and times in seconds, as they are exchanged; and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.consensus.decode import Consensus, check_frame_shift
from ninja.errors import FormatError, LatticeError
from ninja.files import text as utf8
from ninja.lattice.arrays import frozen, offsets
from ninja.lattice.symbols import EPSILON, SymbolTable

Floats = npt.NDArray[np.float32]
Entry = tuple[str | None, float, float | None, float | None]  # word, posterior, start and duration where known


@dataclass(frozen=True, slots=True, eq=False)
class ConfusionNetwork:
    """Bins in a row, each with the words that may stand there and how probable they are."""

    key: str
    bin_begin: npt.NDArray[np.int64]  # [num_bins + 1]; entries of bin b are bin_begin[b] : bin_begin[b + 1]
    words: tuple[str | None, ...]  # [num_entries], None: no word
    posterior: Floats  # [num_entries]
    start: Floats  # [num_entries], seconds; NaN: not known
    duration: Floats  # [num_entries], seconds; NaN: not known

    @classmethod
    def from_bins(cls, key: str, bins: Sequence[Sequence[Entry]]) -> ConfusionNetwork:
        """Make a network of its bins."""
        entries = [entry for each in bins for entry in each]
        columns = [[np.nan if entry[at] is None else entry[at] for entry in entries] for at in (1, 2, 3)]
        posterior, start, duration = (frozen(np.array(column, np.float32)) for column in columns)
        begin = offsets([len(each) for each in bins])
        return cls(key, begin, tuple(entry[0] for entry in entries), posterior, start, duration)

    @property
    def num_bins(self) -> int:
        """Number of bins."""
        return len(self.bin_begin) - 1

    def bin(self, place: int) -> list[Entry]:
        """Return the entries of a bin, in their order."""
        part = slice(int(self.bin_begin[place]), int(self.bin_begin[place + 1]))
        times = (
            [None if np.isnan(each) else each for each in column[part].tolist()]
            for column in (self.start, self.duration)
        )
        return list(zip(self.words[part], self.posterior[part].tolist(), *times, strict=True))

    def identical(self, other: ConfusionNetwork) -> bool:
        """Tell whether two networks agree in everything, bit for bit."""
        return (
            (self.key, self.words) == (other.key, other.words)
            and np.array_equal(self.bin_begin, other.bin_begin)
            and all(
                np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
                for name in ("posterior", "start", "duration")
            )
        )

    def __repr__(self) -> str:
        return f"ConfusionNetwork({self.key!r}, {self.num_bins} bins, {len(self.words)} entries)"


def confusion_network(
    consensus: Consensus, frame_shift: float = 0.01, words: SymbolTable | None = None
) -> ConfusionNetwork:
    """Return the network around a decoded word sequence, with words spelled and times in seconds.

    Args:
        consensus: What ``mbr_decode`` found.
        frame_shift: Seconds per frame (per label), > 0.
        words: Symbol table; None: word ids are spelled as numbers.

    Raises:
        OptionError: ``frame_shift`` is not above 0.
        SymbolError: `words` lacks a word id.
    """
    check_frame_shift(frame_shift)
    names = [
        None if number == EPSILON else (str(number) if words is None else words.word(number))
        for number in consensus.word.tolist()
    ]
    has_times = consensus.bin_times.max(initial=0) > 0  # else the lattice had none
    is_word = (consensus.word != EPSILON) & has_times
    begin, end = np.round(consensus.word_times.astype(np.float64) * frame_shift, 6).T  # single precision holds no more
    return ConfusionNetwork(
        consensus.key,
        consensus.bin_begin,
        tuple(names),
        consensus.posterior,
        frozen(np.where(is_word, begin, np.nan), np.float32),
        frozen(np.where(is_word, end - begin, np.nan), np.float32),
    )


def json_text(network: ConfusionNetwork) -> str:
    """Return a network as one line of JSON.

    An object with ``key`` and ``bins``; a bin is a list of entries ``{"word", "posterior", "start", "duration"}``, the
    most probable first; ``word`` is null for no word, times (seconds) are left out where they are not known.
    """
    bins = []
    for place in range(network.num_bins):
        entries: list[dict[str, Any]] = []
        for word, posterior, start, duration in network.bin(place):
            entry: dict[str, Any] = {"word": word, "posterior": shortest(posterior)}
            if start is not None and duration is not None:
                entry |= {"start": shortest(start), "duration": shortest(duration)}
            entries.append(entry)
        bins.append(entries)
    try:
        return json.dumps({"key": network.key, "bins": bins}, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise LatticeError("a posterior or time is not finite", key=network.key) from error


def read_json(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    """Yield the networks of a file as ``json_text`` writes them, one a line; gzip is unpacked.

    Raises:
        FormatError: A line is no such network; the message says where.
        InputError: The file cannot be read.
    """
    for number, line in enumerate(utf8.read(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            key, bins = content["key"], [[_entry(entry) for entry in entries] for entries in content["bins"]]
            if not isinstance(key, str):
                raise TypeError("the key is no text")
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else error
            raise FormatError(f"no confusion network: {reason}", path, line=number) from error
        yield ConfusionNetwork.from_bins(key, bins)


def shortest(value: float) -> float:
    """Return the decimal number of fewest digits that a single-precision number is read back from."""
    return float(str(np.float32(value)))


def _entry(entry: dict[str, Any]) -> Entry:
    word = entry["word"]
    if not (word is None or isinstance(word, str)):
        raise TypeError("a word is neither text nor null")
    posterior = _number(entry["posterior"])
    if not 0.0 <= posterior <= 1.001:
        raise ValueError(f"the posterior {posterior} is no probability")
    start, duration = (_number(entry[name]) if name in entry else None for name in ("start", "duration"))
    return word, posterior, start, duration


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
