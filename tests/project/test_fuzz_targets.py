"""The fuzzing targets name existing headers, and every dictionary and seed belongs to a target."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "fuzz"
TARGETS = sorted((FUZZ / "targets").glob("*.cpp"))
# Headers that read untrusted files, or compute from their contents: each must be covered by a target.
READERS = [
    "align/align_places.hpp",
    "context/augment.hpp",
    "context/compose_context.hpp",
    "context/context.hpp",
    "core/fst_image.hpp",
    "core/fst_machine.hpp",
    "core/pair_map.hpp",
    "core/trie.hpp",
    "formats/fst_text.hpp",
    "formats/k2_image.hpp",
    "formats/kaldi_read.hpp",
    "formats/kaldi_table.hpp",
    "formats/kaldi_text.hpp",
    "formats/native_check.hpp",
    "formats/read_ahead.hpp",
    "formats/rows_text.hpp",
    "formats/slf.hpp",
    "formats/slf_scan.hpp",
    "formats/slf_sections.hpp",
    "formats/slf_whole.hpp",
    "formats/text_lattices.hpp",
    "formats/text_lattices_formats.hpp",
    "formats/text_lattices_plf.hpp",
    "formats/text_tokens.hpp",
    "lm/arpa.hpp",
    "lm/compose_ngram.hpp",
    "lm/const_arpa.hpp",
    "lm/grammar.hpp",
    "lm/ngram_build.hpp",
    "search/cover.hpp",
    "search/expander.hpp",
    "search/history.hpp",
    "search/level_search.hpp",
    "search/prefixes.hpp",
    "search/pruned_search.hpp",
    "search/sentence_costs.hpp",
    "search/wave.hpp",
]


def covered_headers(target):
    return " ".join(re.findall(r"^// Covers: (.*)$", target.read_text(), re.MULTILINE)).split()


@pytest.mark.parametrize("target", TARGETS, ids=lambda path: path.stem)
def test_a_target_covers_existing_headers(target):
    assert covered_headers(target)
    assert [name for name in covered_headers(target) if not (ROOT / "ext" / name).exists()] == []


def test_every_reader_has_a_target():
    assert set(READERS) <= {name for target in TARGETS for name in covered_headers(target)}


# Declares the values that targets draw; the header itself belongs to clang.
DATA_PROVIDER = """
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
struct FuzzedDataProvider {
  FuzzedDataProvider(const uint8_t* data, size_t size);
  bool ConsumeBool();
  template <class T> T ConsumeIntegral();
  template <class T> T ConsumeIntegralInRange(T min, T max);
  template <class T> T ConsumeFloatingPoint();
  template <class T> std::vector<T> ConsumeBytes(size_t size);
  std::string ConsumeRandomLengthString(size_t max_length);
  std::string ConsumeRemainingBytesAsString();
};
"""

FUNCTIONS = ("LLVMFuzzerTestOneInput", "LLVMFuzzerCustomMutator")  # of each target; with C linkage, their names clash


# An installed wheel needs no compiler. In CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_targets_compile_with_the_present_kernels(tmp_path):
    (tmp_path / "fuzzer").mkdir()
    (tmp_path / "fuzzer" / "FuzzedDataProvider.h").write_text(DATA_PROVIDER)
    sources = [*TARGETS, FUZZ / "threads.cpp"]
    # All targets are compiled as one unit, which parses each header once. The unit includes the headers first, since
    # each target is in a namespace of its own.
    unit = [line for source in sources for line in source.read_text().splitlines() if line.startswith("#include")]
    for source in sources:
        unit += [f"#define {function} {function}_{source.stem}" for function in FUNCTIONS]
        unit += [f"namespace {source.stem}_target {{", f'#include "{source}"', "}"]
        unit += [f"#undef {function}" for function in FUNCTIONS]
    (tmp_path / "targets.cpp").write_text("\n".join(unit))
    folders = [f"-I{folder}" for folder in (tmp_path, ROOT / "ext", FUZZ)]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", *folders, tmp_path / "targets.cpp"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[:2000]


def test_dictionaries_and_seeds_belong_to_targets(tmp_path):
    subprocess.run([sys.executable, FUZZ / "seeds.py", tmp_path], check=True)
    names = {target.stem for target in TARGETS}
    assert {path.stem for path in (FUZZ / "dictionaries").iterdir()} <= names
    assert {path.name for path in tmp_path.iterdir()} <= names
    assert all(path.stat().st_size < 4096 for path in tmp_path.glob("*/*"))  # libFuzzer would truncate longer inputs


@pytest.fixture
def run(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("fuzz_run", FUZZ / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BUILD", tmp_path)
    return module


def test_executions_are_summed_over_calls(run, monkeypatch):
    calls = []

    def run_slice(target, seconds, executions, most_bytes):
        calls.append(executions)
        return 400, 0.5, True, ""

    monkeypatch.setattr(run, "run_slice", run_slice)
    assert run.run("plf", "these kernels", 60, 1000) == (1200, True, "")
    assert calls == [1000, 600, 200]
    assert run.recorded_executions("plf", "these kernels") == (1200, 1.5)
    assert run.run("plf", "these kernels", 60, 1000) == (0, True, "")
    assert run.run("plf", "others", 60, 300) == (400, True, "")


def test_executions_before_a_crash_are_not_recorded(run, monkeypatch):
    monkeypatch.setattr(run, "run_slice", lambda *arguments: (400, 0.5, False, "crash"))
    assert run.run("plf", "these kernels", 60, 1000) == (400, False, "crash")
    assert run.recorded_executions("plf", "these kernels") == (0, 0)


def test_planted_faults_match_the_headers(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FUZZ)
    faults, tsan = importlib.import_module("planted"), importlib.import_module("tsan")
    assert set(faults.PLANTED) <= {target.stem for target in TARGETS}
    races = [(header, *change) for header, change in tsan.PLANTED.items()]
    for header, guard, replacement in sum(faults.PLANTED.values(), races):
        faults.plant(header, guard, replacement, tmp_path)
        assert (tmp_path / header).read_text() != (ROOT / "ext" / header).read_text()
