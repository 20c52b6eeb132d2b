"""Selection of an archive's lattices: lists of keys, and their division into parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ninja.errors import FormatError, OptionError
from ninja.formats.kaldi.tables import read_fields


def read_keys(path: str | os.PathLike[str]) -> list[str]:
    """Read the first field of each line: a list of keys, or any table of Kaldi's; ``.gz`` is unpacked.

    Returns:
        The keys, each once, in the order of the file.

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
        num_parts: Number of parts, ≥ 1; each part has at least one key.
        group_of: Group (speaker) of each key; all keys of a group are in the same part, that of its first key.

    Returns:
        Number of the part of each key, counted from 0.

    Raises:
        OptionError: ``num_parts`` is below 1, or more than the number of keys or groups.

    Source: Kaldi, utils/split_scp.pl, which has the same purpose.
    """
    sizes: dict[str, int] = {}
    for key in keys:
        group = key if group_of is None else group_of[key]
        sizes[group] = sizes.get(group, 0) + 1
    groups = "lattices" if group_of is None else "speakers"
    if not 1 <= num_parts <= len(sizes):
        raise OptionError(f"{len(sizes)} {groups} cannot be cut into {num_parts} parts")
    part: dict[str, int] = {}
    num_assigned = current = 0  # keys in the parts so far, the part being filled
    groups_left = len(sizes)
    for group, size in sizes.items():
        share = (current + 1) * len(keys) / num_parts
        must = groups_left == num_parts - 1 - current  # each of the remaining parts needs one group
        if part and current < num_parts - 1 and (must or num_assigned + size / 2 > share):
            current += 1
        part[group] = current
        num_assigned += size
        groups_left -= 1
    return {key: part[key if group_of is None else group_of[key]] for key in keys}
