"""Comparison of a resumed output with the earlier attempt: the scales, and the lattices already in the output."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ninja.errors import OptionError
from ninja.files.output import part_of
from ninja.files.stream import is_file
from ninja.io.sources import ChosenScales, read_scales, scales_path


@dataclass(slots=True, eq=False)
class _Key:
    """The lattices with one key, numbered from 0 in the order of the sources."""

    written: dict[int, None] = field(default_factory=dict)  # numbers of the lattices in the output, in output order
    largest: int = -1  # largest number in `written`
    following: int = 0  # smallest number that the next lattice of this run can have

    def write(self) -> bool:
        number = self.following
        while number in self.written:
            number += 1
        is_next = number == self.largest + 1
        self.written[number] = None
        self.largest = max(self.largest, number)
        self.following = number + 1
        return is_next


class Done:
    """The lattices that a resumed run skips, because the output contains them.

    Args:
        counts: Number of lattices with each key in the output.
        numbers: For some keys, the numbers of these lattices; see `Occurrences`. For other keys, the numbers are 0 to
            count - 1.
    """

    def __init__(self, counts: Mapping[str, int], numbers: Mapping[str, Iterable[int]]) -> None:
        self._numbers: dict[str, Collection[int]] = {key: range(count) for key, count in counts.items()}
        self._numbers |= {key: set(done) for key, done in numbers.items()}
        self._num_read: Counter[str] = Counter()

    def skips(self, key: str) -> bool:
        """Return whether the run skips the next lattice with this key; call this once per lattice, in source order."""
        if key not in self._numbers:
            return False
        self._num_read[key] += 1
        return self._num_read[key] - 1 in self._numbers[key]


class Occurrences:
    """The numbers of the lattices in an output, for each key with a failed lattice.

    Lattices with the same key are numbered from 0 in the order of the sources. A lattice that fails in one run and
    succeeds in a later run is written after lattices with larger numbers. If an output contains more lattices with a
    key than there are stored numbers, the numbers continue after the largest stored number. The facts about the run
    therefore need not be rewritten for each lattice.

    Args:
        numbers: For each key, the numbers that an earlier run stored, in the order of the lattices in the output.
        counts: For each key, the number of lattices in the output.
    """

    def __init__(self, numbers: Mapping[str, Iterable[int]], counts: Mapping[str, int]) -> None:
        self._keys: dict[str, _Key] = {}
        for key, stored in numbers.items():
            self._keys[key] = occurrences = _Key()
            for number in [*stored][: counts.get(key, 0)]:
                occurrences.written[number] = None
                occurrences.largest = max(occurrences.largest, number)
            while len(occurrences.written) < counts.get(key, 0):
                occurrences.largest += 1
                occurrences.written[occurrences.largest] = None

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def written(self) -> dict[str, list[int]]:
        """Return the lattice numbers in output order for each key, except keys whose numbers are 0, 1, 2, …."""
        numbers = {key: [*occurrences.written] for key, occurrences in self._keys.items()}
        return {key: stored for key, stored in numbers.items() if stored != [*range(len(stored))]}

    def fail(self, key: str, num_written: int) -> None:
        """Record that the next lattice with a key failed.

        Args:
            key: Key of the lattice.
            num_written: Number of lattices with this key in the output; used only for the first failure of a key.
        """
        if key not in self._keys:
            self._keys[key] = _Key(dict.fromkeys(range(num_written)), num_written - 1)
        occurrences = self._keys[key]
        while occurrences.following in occurrences.written:
            occurrences.following += 1
        occurrences.following += 1

    def write(self, keys: Iterable[str]) -> bool:
        """Record that lattices will be written; return whether the result of `written` must be stored first."""
        in_order = [self._keys[key].write() for key in keys if key in self._keys]
        return not all(in_order)


def refuse_other_scales(place: str, chosen: ChosenScales | None) -> None:
    """Raise `OptionError` if an output cannot be resumed because different scales were chosen for its lattices.

    Args:
        place: Path of a complete or partial output; an output without a scale file is accepted.
        chosen: Scales chosen for the lattices to be added, or None.
    """
    part = part_of(place)
    if not is_file(place) and not (os.path.isfile(part) and os.path.getsize(part)):
        return
    path = scales_path(place)
    existing = next(
        filter(is_file, (part_of(path), path)), None
    )  # prefer the more recent file of an unfinished attempt
    if existing is None or (before := read_scales(existing)) == chosen:
        return
    then, now = before.values(), {} if chosen is None else chosen.values()
    differ = [name for name in {**then, **now} if _value(then, name) != _value(now, name)]
    old = " and ".join(f"{name} {_value(then, name)}" for name in differ)
    new = " and ".join(_value(now, name) for name in differ) if now else "no scales"
    advice = "use the same options, or omit --resume (resume=) to start again"
    raise OptionError(f"{place}: an earlier attempt used {old}, but this attempt uses {new}; {advice}")


def _value(values: dict[str, float], name: str) -> str:
    value = values.get(name, 1.0 if name == "lm_scale" else None)
    return "none" if value is None else f"{value:.12g}"
