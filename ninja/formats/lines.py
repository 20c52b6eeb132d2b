"""Formats without a header, known by what their lines look like."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WEIGHT = re.compile(
    rb"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|[nN]a[nN]|BadNumber)"
)
_COSTS = re.compile(rb"(?=.*\d)[-+\d.eE]*,[-+\d.eE]*(?:,[\d_]*)?")
_STATE = re.compile(rb"\d{1,10}")
_COLUMNS = re.compile(rb"\s*\S+-\d{1,9}(?:\s+[-+\d.eE]+)+\s*")
_TOLD = 200  # lines that are looked at

_Row = TypeVar("_Row")  # a line, whole or in fields


# Of lines without a header: how many of them, as a share, are of a format. It is 1 where all are, less where some are
# damaged, and 0 where most are, or the first one, which says more than any other.


def att_text_share(rows: Sequence[bytes]) -> float:
    """Return the share of an FST in AT&T's text: an arc first, then arcs and final states; or one state alone."""
    fields = _fields(rows)
    long = [row for row in fields if len(row) > 3 and _is_transition(row)]
    if long and all(len(row) == 4 and row[2] != row[3] and _COSTS.fullmatch(row[3]) for row in long):
        return 0  # a lattice of Kaldi's without its key
    begins = has_arc(rows) or (len(fields) == 1 and fields[0][0] == b"0")
    return _share(fields, _is_transition) if begins else 0


def has_arc(rows: Sequence[bytes]) -> bool:
    """Tell whether an FST in AT&T's text is more than one state."""
    return any(len(row) > 2 for row in _fields(rows)[:1])


def ctm_share(rows: Sequence[bytes]) -> float:
    """Return the share of a CTM: file, channel, begin, duration, word, a confidence perhaps."""
    fields = [row for row in _fields(rows) if not row[0].startswith(b";;")]
    fitting = [row for row in fields if _is_ctm(row)]
    # An FST with ids and weights has five numbers, too, of which two are whole where a CTM has seconds; so have
    # posteriors of arcs, with frames for seconds.
    has_seconds = any(b"." in row[2] for row in fitting) or (
        len(fields) == 1 and fields == fitting and fields[0][2] == b"0" and b"." in fields[0][3]
    )
    return _share(fields, _is_ctm) if has_seconds and not columns_share(rows) else 0


def columns_share(rows: Sequence[bytes]) -> float:
    """Return the share of n-best lists in columns: a key with a rank, scores, a bar, the words."""
    return _share([row for row in rows[:_TOLD] if row.strip()], _is_columns)


def nemo_share(rows: Sequence[bytes]) -> float:
    """Return the share of NeMo's beams: a sentence, a tab, a score, which unlike the ids of words is no integer."""
    whole = [row.rstrip(b"\r") for row in rows[:_TOLD] if row.strip()]
    scores = [row.rpartition(b"\t")[2].strip() for row in whole if _is_beam(row)]
    return _share(whole, _is_beam) if any(b"." in score or score.startswith(b"-") for score in scores) else 0


def srilm_share(rows: Sequence[bytes]) -> float:
    """Return the share of SRILM's n-best lists without a header: two scores, the number of words, the words."""
    fields = [row for row in _fields(rows) if not row[0].startswith(b"##")]
    counted = [row for row in fields if _is_scored(row) and _is_counted(row)]
    # Words that count for no penalty make the number smaller than it looks; of all lines that is not so.
    if counted and all(map(_is_scored, fields)):
        return 1
    return _share(fields, lambda row: _is_scored(row) and _is_counted(row))


def is_kaldi_text(rows: Sequence[bytes]) -> bool:
    """Tell whether lines are Kaldi's text lattices: a key, then arcs and final states whose costs have commas."""
    found = _Archive.of(rows)
    if found is None or found.long_key or found.fst > found.lattice:
        return False
    return found.lattice > 0 or found.marked


def is_fst_archive(rows: Sequence[bytes]) -> bool:
    """Tell whether lines are a text archive of FSTs, whose weights are single numbers."""
    found = _Archive.of(rows)
    return found is not None and not found.long_key and found.fst > found.lattice and not found.named


def is_named_text(rows: Sequence[bytes]) -> bool:
    """Tell whether lines are Kaldi's text lattices with names in place of the ids of words, or a key of several words.

    A single name among ids is damage; the names of an archive have <eps> among them, or most of them are no numbers.
    """
    found = _Archive.of(rows)
    if found is None or (found.fst > found.lattice and not found.has_epsilon):
        return False
    return found.named or (found.long_key and found.lattice > 0 and found.whole)


@dataclass(slots=True)
class _Archive:
    """What stands in the lines of a text archive of lattices or FSTs."""

    long_key: bool  # whether the first key has blanks in it
    marked: bool  # whether a blank follows it, as Kaldi writes one
    whole: bool = True  # whether every line is an arc or a final state
    lattice: int = 0  # lines with costs of two parts
    fst: int = 0  # lines with weights of one
    has_epsilon: bool = False
    names: int = 0  # arcs whose words are no numbers
    numbers: int = 0

    @property
    def named(self) -> bool:
        """Whether words are names."""
        return self.has_epsilon or self.names > self.numbers

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> _Archive | None:
        """Take the lines in; None if they are no such archive: some may be damaged, but neither the first nor most."""
        found: _Archive | None = None
        ends = True  # whether a lattice has ended
        good = bad = 0
        for row in rows:
            fields = row.split()
            if not fields:
                ends = True
            elif ends:
                if found is None and _may_be_arc(fields):
                    return None
                found = found or cls(len(fields) > 1, row.rstrip(b"\r")[-1:] in (b" ", b"\t"))
                ends = False
            else:
                assert found is not None
                fits = found.take(fields)
                if not fits and not good:
                    return None
                good += fits
                bad += not fits
        if found is None or not good or bad > good:
            return None
        found.whole = not bad
        return found

    def take(self, fields: list[bytes]) -> bool:
        """Take in a line; returns whether it is an arc or a final state."""
        count = len(fields)
        if not _STATE.fullmatch(fields[0]) or count > 5:
            return False
        if count > 2 and not _STATE.fullmatch(fields[1]):
            return False
        last = fields[-1]
        lattice = count in (2, 4, 5) and b"," in last
        whole = count == 1 or count == 3 or (count == 4 and (last.isdigit() or not _WEIGHT.fullmatch(last)))
        word = b"" if count < 3 else fields[2] if count == 3 or (count == 4 and lattice) else fields[3]
        if not lattice and not whole:  # a weight of one part
            if not _WEIGHT.fullmatch(last) or not all(each.isdigit() for each in fields[:-1]):
                return False
            self.fst += 1
            word = b"" if count == 2 else fields[-2]
        elif count > 3 and not fields[2].isdigit() and not (count == 4 and lattice):
            return False
        self.lattice += lattice
        if word:
            is_number = _NUMBER.fullmatch(word) is not None
            self.has_epsilon |= word == b"<eps>"
            self.numbers += is_number
            self.names += not is_number
        return True


def _may_be_arc(fields: list[bytes]) -> bool:
    return len(fields) > 2 and fields[0].isdigit() and fields[1].isdigit()


def _fields(rows: Sequence[bytes]) -> list[list[bytes]]:
    return [fields for row in rows[:_TOLD] if (fields := row.split())]


def _share(rows: Sequence[_Row], fits: Callable[[_Row], bool]) -> float:
    """Return how many of some lines are of a format, as a share; 0 where the first one or most are not."""
    if not rows or not fits(rows[0]):
        return 0
    good = sum(map(fits, rows))
    return good / len(rows) if 2 * good > len(rows) else 0


def _is_ctm(fields: list[bytes]) -> bool:
    return len(fields) in (5, 6) and bool(_NUMBER.fullmatch(fields[2]) and _NUMBER.fullmatch(fields[3]))


def _is_columns(row: bytes) -> bool:
    head, bar, _ = row.partition(b"|")
    return bool(bar) and _COLUMNS.fullmatch(head) is not None


def _is_beam(row: bytes) -> bool:
    return row.count(b"\t") == 1 and _NUMBER.fullmatch(row.rpartition(b"\t")[2].strip()) is not None


def _is_scored(fields: list[bytes]) -> bool:
    return len(fields) >= 3 and bool(
        _NUMBER.fullmatch(fields[0]) and _NUMBER.fullmatch(fields[1]) and _STATE.fullmatch(fields[2])
    )


def _is_counted(fields: list[bytes]) -> bool:
    return int(fields[2]) in (len(fields) - 3, len([each for each in fields[3:] if each[:1] not in b"<["]))


def _is_transition(fields: list[bytes]) -> bool:
    """Tell whether a line is an arc or a final state."""
    if not _STATE.fullmatch(fields[0]) or len(fields) > 5:
        return False
    if len(fields) <= 2:
        return len(fields) == 1 or _WEIGHT.fullmatch(fields[1]) is not None
    if not _STATE.fullmatch(fields[1]):
        return False
    return len(fields) < 5 or _WEIGHT.fullmatch(fields[4]) is not None
