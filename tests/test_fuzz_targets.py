"""The fuzzing targets: each names headers that are there, and what stands beside them belongs to one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "fuzz"
TARGETS = sorted((FUZZ / "targets").glob("*.cpp"))
# Headers that read what a stranger wrote: each must be some target's.
READERS = [
    "core/fst_image.hpp",
    "core/fst_machine.hpp",
    "formats/fst_text.hpp",
    "formats/k2_image.hpp",
    "formats/kaldi_read.hpp",
    "formats/kaldi_table.hpp",
    "formats/kaldi_text.hpp",
    "formats/native_check.hpp",
    "formats/slf.hpp",
    "formats/slf_scan.hpp",
    "formats/slf_sections.hpp",
    "formats/slf_whole.hpp",
    "formats/text_lattices.hpp",
    "formats/text_lattices_formats.hpp",
    "formats/text_lattices_plf.hpp",
    "formats/text_tokens.hpp",
    "lm/arpa.hpp",
    "lm/const_arpa.hpp",
    "lm/grammar.hpp",
]


def covered(target):
    return " ".join(re.findall(r"^// Covers: (.*)$", target.read_text(), re.MULTILINE)).split()


@pytest.mark.parametrize("target", TARGETS, ids=lambda path: path.stem)
def test_target_covers_headers_that_are_there(target):
    assert covered(target)
    assert [name for name in covered(target) if not (ROOT / "ext" / name).exists()] == []


def test_every_reader_has_a_target():
    assert set(READERS) <= {name for target in TARGETS for name in covered(target)}


def test_dictionaries_and_seeds_belong_to_targets(tmp_path):
    subprocess.run([sys.executable, FUZZ / "seeds.py", tmp_path], check=True)
    names = {target.stem for target in TARGETS}
    assert {path.stem for path in (FUZZ / "dictionaries").iterdir()} <= names
    assert {path.name for path in tmp_path.iterdir()} <= names
    assert all(path.stat().st_size < 4096 for path in tmp_path.glob("*/*"))  # libFuzzer would cut longer ones
