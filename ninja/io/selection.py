"""Functions that read key lists and divide them into parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ninja.errors import FormatError, OptionError
from ninja.formats.kaldi.tables import read_fields


def read_keys(path: str | os.PathLike[str]) -> list[str]:
    """Read the keys (the first field of each line) from a list or a Kaldi text table, which may be gzipped.

    Returns:
        The keys in the order of the file, without duplicates.

    Raises:
        FormatError: A line is empty, or the file is not UTF-8.

    Source: Kaldi, latbin/lattice-copy.cc (``--include``, ``--exclude``).
    """
    keys: dict[str, None] = {}
    for number, fields in read_fields(path):
        if not fields:
            raise FormatError("expected a key", path, line=number)
        keys[fields[0]] = None
    return list(keys)


def part_of(keys: Sequence[str], num_parts: int, group_of: Mapping[str, str] | None = None) -> dict[str, int]:
    """Divide a list of keys into contiguous parts of about the same size.

    Args:
        keys: Keys to divide.
        num_parts: Number of parts, ≥ 1; each part contains at least one key.
        group_of: Group (speaker) of each key; all keys of a group are assigned to the same part. None makes each key a
            separate group.

    Returns:
        The 0-based index of the part of each key.

    Raises:
        OptionError: ``num_parts`` is below 1, or exceeds the number of keys or groups.

    Source: Kaldi, utils/split_scp.pl, which has the same purpose.
    """
    sizes: dict[str, int] = {}
    for key in keys:
        group = key if group_of is None else group_of[key]
        sizes[group] = sizes.get(group, 0) + 1
    groups = "lattices" if group_of is None else "speakers"
    if not 1 <= num_parts <= len(sizes):
        raise OptionError(
            f"the number of parts is {num_parts}, but must be from 1 to {len(sizes)}, the number of {groups}"
        )
    part: dict[str, int] = {}
    num_assigned = current = 0  # number of assigned keys; index of the current part
    num_groups_left = len(sizes)
    for group, size in sizes.items():
        end = (current + 1) * len(keys) / num_parts
        must_advance = num_groups_left == num_parts - 1 - current  # otherwise, a remaining part would get no group
        if part and current < num_parts - 1 and (must_advance or num_assigned + size / 2 > end):
            current += 1
        part[group] = current
        num_assigned += size
        num_groups_left -= 1
    return {key: part[key if group_of is None else group_of[key]] for key in keys}
