"""Mutated files are read as valid lattices or rejected with a NinjaError.

Mutations move, copy and change bytes, words of four bytes, fields and lines. NINJA_MUTATIONS is the number of inputs of
each reader, NINJA_MUTATIONS_FROM the number of the first. Readers in C++ are also tested by fuzz/.
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


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return a file with one to four mutations."""
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(5)
        if kind == 0 and content:  # change a byte
            place = rng.randrange(len(content))
            content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
        elif kind == 1 and len(content) > 8:  # change a word of four bytes
            place = rng.randrange(len(content) - 4)
            word = rng.choice([*WORDS_OF_FOUR, rng.randrange(len(content))])
            content = content[:place] + struct.pack("<I", word) + content[place + 4 :]
        elif kind == 2:  # delete or repeat a range of bytes
            begin, end = sorted((rng.randint(0, len(content)), rng.randint(0, len(content))))
            repeated = content[begin:end] * rng.randint(0, 2)
            content = content[:begin] + repeated + content[end:]
        else:  # exchange, replace or copy lines or fields
            separator = rng.choice(SEPARATORS)
            parts = content.split(separator)
            first, second = rng.randrange(len(parts)), rng.randrange(len(parts))
            if kind == 3:
                parts[first], parts[second] = parts[second], parts[first]
            elif rng.random() < 0.5:
                parts[first] = rng.choice(NUMBERS)
            else:
                parts.insert(first, parts[second])
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
        rng = random.Random(f"{name} {number}")
        content = mutate(rng.choice(files), rng)
        path.write_bytes(content)
        try:
            read(str(path))
        except NinjaError:
            continue
        except Exception as error:
            pytest.fail(f"mutation {number} of {name}: {error!r}\n{content[:400]!r}")
