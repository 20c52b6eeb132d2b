"""Mutated files are read as valid lattices, or rejected with a NinjaError.

Mutations move, copy and change bytes, words of four bytes, fields and lines. NINJA_MUTATIONS says how many inputs each
reader gets, NINJA_MUTATIONS_FROM where their numbers begin. Readers in C++ have fuzz/ besides.
"""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest
from small_files import FORMATS, READERS, read_as, small_file

from ninja.errors import NinjaError

COUNT = int(os.environ.get("NINJA_MUTATIONS", "25"))
FIRST = int(os.environ.get("NINJA_MUTATIONS_FROM", "0"))
NUMBERS = (b"0", b"-1", b"2147483648", b"99999999999999999999", b"1e400", b"nan", b"-inf", b"", b"\xff", b"0x10", b"1e")
WORDS_OF_FOUR = (0, 1, 2, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7F800000, 0x7FC00000, 0x10000000)
SEPARATORS = (b"\n", b" ", b"\t", b",", b'"', b"=")


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return a file with one to four mutations."""
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(5)
        if kind == 0 and content:  # a byte
            place = chance.randrange(len(content))
            content = content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
        elif kind == 1 and len(content) > 8:  # a word
            place = chance.randrange(len(content) - 4)
            word = chance.choice([*WORDS_OF_FOUR, chance.randrange(len(content))])
            content = content[:place] + struct.pack("<I", word) + content[place + 4 :]
        elif kind == 2:  # cut, or a stretch once more
            place, other = sorted((chance.randint(0, len(content)), chance.randint(0, len(content))))
            again = content[place:other] * chance.randint(0, 2)
            content = content[:place] + again + content[other:]
        else:  # lines or fields
            separator = chance.choice(SEPARATORS)
            parts = content.split(separator)
            one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
            if kind == 3:
                parts[one], parts[other] = parts[other], parts[one]
            elif chance.random() < 0.5:
                parts[one] = chance.choice(NUMBERS)
            else:
                parts.insert(one, parts[other])
            content = separator.join(parts)
    return content[: 1 << 16]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*READERS, *FORMATS])
def test_a_mutated_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    read, files = READERS[name] if name in READERS else (read_as(name), [small_file(FORMATS[name], tmp_path)])
    path = tmp_path / "file"
    for content in files:
        path.write_bytes(content)
        read(str(path))
    for number in range(FIRST, FIRST + COUNT):
        chance = random.Random(f"{name} {number}")
        content = mutated(chance.choice(files), chance)
        path.write_bytes(content)
        try:
            read(str(path))
        except NinjaError:
            continue
        except Exception as error:
            pytest.fail(f"mutation {number} of {name}: {error!r}\n{content[:400]!r}")
