"""Mutation testing: a random sample of small faults, each of which should make a test fail.

    python -m benchmarks.mutants --trace          # once: record the tests of each line, in build/mutants
    python -m benchmarks.mutants [--python 70] [--native 30] [--seed 1] [--seconds 3600] [--only PATH]

One operator, constant, condition or refusal is changed in a copy of the tree: in modules of formats, io, rescoring,
context and evaluate, or in the kernels of `ext`, whose extension is then compiled again, without optimisation.
Then the tests that run the changed line are run, the quickest first, up to TRACED_SECONDS of them; for kernels, and for
lines that are run by imports alone, the test files that name the module most often. Other tests are not run: a mutant
that survives may be found by one of them, and is examined by hand. fuzz/README.md has the results.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import coverage
import numpy as np

from benchmarks.command import ROOT, command, option

PACKAGES = ("formats", "io", "rescoring", "context", "evaluate")
MOST = 5  # test files of a mutant whose line is in no trace
TRACED_SECONDS = 60  # of the tests of a line
TRACE = ROOT / "build" / "mutants"
SECONDS = 120  # of the CPU for its tests; more is an endless loop, which counts as found
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "in": "not in"}
NATIVE = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ", " + ": " - ",
          " - ": " + ", " && ": " || ", " || ": " && ", "std::min": "std::max", "std::max": "std::min", " * ": " / ",
          "return false": "return true", "return true": "return false", "continue;": "break;"}  # fmt: skip
# Tests of the kernels in each folder of ext, the most thorough ones first.
TESTS_OF = {
    "graph": "test_graph_paths test_graph_prune test_determinize test_determinize_pruned test_push test_union "
    "test_oracle test_compose test_graph_posteriors",
    "core": "test_lattice test_openfst test_lm_trie test_formats_kaldi test_batch",
    "formats": "test_formats_kaldi test_slf test_fst_text test_k2 test_pfsg test_plf test_sphinx test_native",
    "align": "test_align_words test_align_lexicon",
    "consensus": "test_consensus",
    "context": "test_context test_augment test_class_model",
    "ctc": "test_ctc",
    "lm": "test_ngram test_lm_kernels test_kneser_ney test_old_lm",
    "search": "test_rescore test_pruned test_sentences test_ties",
}


@dataclass(frozen=True)
class Mutant:
    """A change of one stretch of a file."""

    path: str
    begin: int
    end: int
    new: str

    def describe(self, text: str) -> str:
        """Return the place and the change in one line."""
        line = text.count("\n", 0, self.begin) + 1
        row = text.splitlines()[line - 1].strip()
        return f"{self.path}:{line}: {text[self.begin : self.end].strip()!r} → {self.new.strip()!r} in {row[:90]}"


def python_mutants(path: str, text: str) -> Iterator[Mutant]:
    """Yield every change of a module."""
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row.encode()))
    content = text.encode()

    def span(node: ast.AST) -> tuple[int, int]:
        begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return begin, starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def replace(begin: int, end: int, new: str) -> Mutant:
        return Mutant(path, len(content[:begin].decode()), len(content[:end].decode()), new)

    def between(left: ast.AST, right: ast.AST, changes: dict[str, str]) -> Iterator[Mutant]:
        begin, end = span(left)[1], span(right)[0]
        between = content[begin:end].decode()
        word = between.strip(" ()\n")
        if word in changes:
            yield replace(begin, end, between.replace(word, changes[word]))

    nodes = list(ast.walk(ast.parse(text)))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    decorators = {node for owner in classes for decorator in owner.decorator_list for node in ast.walk(decorator)}
    for node in nodes:
        if node in decorators:  # correct programs do not depend on frozen classes or slots
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between(node.left, node.comparators[0], COMPARISONS)
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, {"+": "-", "-": "+", "*": "+", "//": "*", "/": "*", "&": "|"})
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1], {"and": "or", "or": "and"})
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield replace(*span(node), "pass")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield replace(span(node)[0], span(node.operand)[0], "")
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield replace(*span(node), str(not node.value))
        elif isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1000:
            yield replace(*span(node), str(node.value + 1))


def native_mutants(path: str, text: str) -> Iterator[Mutant]:
    """Yield every change of a header, outside comments and preprocessor lines."""
    at = 0
    for row in text.splitlines(keepends=True):
        code = row.split("//")[0]
        if not code.lstrip().startswith(("#", "template", "static_assert")):
            for old, new in NATIVE.items():
                yield from (Mutant(path, at + match.start(), at + match.end(), new)
                            for match in re.finditer(re.escape(old), code)
                            if code.count('"', 0, match.start()) % 2 == 0)  # fmt: skip
        at += len(row)


def record_trace() -> None:
    """Run the suite and record the tests of each line of the package, and the time of each test."""
    TRACE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--cov=ninja", "--cov-context=test", "--cov-report=", "--tb=no",
               "--dist", "loadfile", "-n", "2", f"--junitxml={TRACE / 'times.xml'}"]  # fmt: skip
    subprocess.run(command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(TRACE / "coverage")})


def _case(name: str) -> str:
    """Return the name of a test as in reports of times: tests.test_a.Class::test_b[1]."""
    path, *inner, test = name.split("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *inner]) + f"::{test}"


class Trace:
    """The recorded tests of each line."""

    def __init__(self) -> None:
        self.data = coverage.CoverageData(str(TRACE / "coverage"))
        self.data.read()
        cases = ElementTree.parse(TRACE / "times.xml").iter("testcase")
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", "--collect-only", "-q"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
        self.existing = set(listing.splitlines())  # tests may have been renamed since
        self.seconds = {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", 0)) for case in cases}

    def tests(self, path: str, line: int) -> list[str]:
        """Return the tests that run a line, the quickest first, up to TRACED_SECONDS in all."""
        contexts = self.data.contexts_by_lineno(str(ROOT / path)).get(line, [])
        names = {context.rpartition("|")[0] for context in contexts} - {""}
        seconds_of = {name: self.seconds.get(_case(name), 1.0) for name in names & self.existing}
        selection, total = [], 0.0
        for name in sorted(seconds_of, key=lambda name: (seconds_of[name], name)):
            total += seconds_of[name]
            if total > TRACED_SECONDS:
                break
            selection.append(name)
        return selection or sorted(seconds_of, key=seconds_of.__getitem__)[:1]


def tests_of(path: str, tests: dict[str, str], limit: int) -> list[str]:
    """Return the test files that name a module most often."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = re.findall(r"^(?:def|class) ([A-Za-z]\w+)", (ROOT / path).read_text(), re.MULTILINE)
    stem = module.rpartition(".")[2]

    def weight(name: str) -> int:
        text = tests[name]
        mentions = 20 * len(re.findall(re.escape(module) + r"\b", text)) + 10 * (f"_{stem}" in name)
        return mentions + sum(min(3, len(re.findall(rf"\b{definition}\b", text))) for definition in names)

    ranked = sorted(tests, key=lambda name: (-weight(name), name))
    return [f"tests/{name}" for name in ranked[:limit] if weight(name) > 0]


def includes(header: Path) -> set[str]:
    """Return the headers that a file of `ext` includes or declares, directly or not."""
    headers: set[str] = set()
    waiting = [header]
    while waiting:
        for name in re.findall(r'(?:#include|cdef extern from) "(.*?)"', waiting.pop().read_text()):
            if name not in headers and (ROOT / "ext" / name).exists():
                headers.add(name)
                waiting.append(ROOT / "ext" / name)
    return headers


def extensions() -> dict[str, set[str]]:
    """Return the headers of each extension, by the path of its source."""
    headers_of = {}
    for source in sorted((ROOT / "ext").glob("*/_*.pyx")):
        imported = re.findall(r"^(?:cimport|from) (\w+)\.(\w+)", source.read_text(), re.MULTILINE)
        files = [ROOT / "ext" / folder / f"{name}.pxd" for folder, name in imported]
        headers_of[str(source.relative_to(ROOT))] = set().union(*(includes(file) for file in files if file.exists()))
    return headers_of


def translate() -> None:
    """Translate the sources that `build` compiles by Cython, where they are older than `ext`."""
    subprocess.run(
        [sys.executable, "-c", "import setup; setup.extensions()"], cwd=ROOT, check=True, capture_output=True
    )


def build(source: str, folder: Path) -> bool:
    """Compile an extension of the copy; return whether it compiles."""
    translated = ROOT / "build" / source.replace(".pyx", ".cpp")
    target = folder / "ninja" / (Path(source).stem + sysconfig.get_config_var("EXT_SUFFIX"))
    command = ["g++", "-shared", "-fPIC", "-std=c++17", "-O0", "-g0", "-w", f"-I{folder / 'ext'}",
               f"-I{np.get_include()}", f"-I{sysconfig.get_paths()['include']}", "-ffp-contract=off",
               "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION", str(translated), "-o", str(target)]  # fmt: skip
    return subprocess.run(command, capture_output=True).returncode == 0


def run(folder: Path, tests: list[str]) -> tuple[bool, str]:
    """Run tests in the copy; return whether they passed, and the first that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", *tests]
    environment = {
        "NINJA_SHARED": str(ROOT.parent / "shared"),
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / ".hypothesis"),
        "PYTHONPATH": str(folder),  # for commands that tests start
    }
    limited = ["prlimit", f"--cpu={SECONDS}", *command]
    process = subprocess.run(limited, cwd=folder, capture_output=True, text=True, env=environment)
    if process.returncode < 0:
        return False, "no end"
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", process.stdout, re.MULTILINE)
    return process.returncode == 0, failed[0] if failed else process.stdout[-100:].strip()


def copy_tree(folder: Path) -> None:
    """Copy the files that tests need into a folder."""
    for name in ("ninja", "tests", "ext", "examples", "models", "benchmarks", "docs", "fuzz"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, folder)


def put_to_tests(mutant: Mutant, text: str, folder: Path, modules: list[str], tests: list[str]) -> tuple[str, str]:
    """Run tests on a mutant in the copy, whose extension modules are compiled; return the outcome and its reason."""
    binaries = [path for module in modules for path in folder.glob(f"ninja/{Path(module).stem}.*.so")]
    originals = {path: path.read_bytes() for path in [folder / mutant.path, *binaries]}
    (folder / mutant.path).write_text(text[: mutant.begin] + mutant.new + text[mutant.end :])
    try:
        if not all(build(module, folder) for module in modules):
            return "invalid", "does not compile"
        passed, reason = run(folder, tests) if tests else (True, "no tests")
        return "SURVIVED" if passed else "killed", reason
    finally:
        for path, content in originals.items():
            path.write_bytes(content)


@command
@option("--python", "num_python", default=70)
@option("--native", "num_native", default=30)
@option("--seed", default=1)
@option("--seconds", default=3600.0)
@option("--files", default=MOST, help="Test files of a Python mutant.")
@option("--only", default="", help="Part of the paths of the files to change.")
@option("--trace", is_flag=True, help="Run the suite and record the tests that run each line.")
def main(num_python: int, num_native: int, seed: int, seconds: float, files: int, only: str, trace: bool) -> None:
    if trace:
        record_trace()
        return
    traced = Trace() if (TRACE / "coverage").exists() else None
    chance = random.Random(seed)
    modules = [path for package in PACKAGES for path in sorted((ROOT / "ninja" / package).rglob("*.py"))]
    paths = [*modules, *sorted(ROOT.glob("ext/*/*.hpp"))]
    sources = {path: (ROOT / path).read_text() for path in (str(p.relative_to(ROOT)) for p in paths) if only in path}
    sample = []
    for ending, count, mutate in ((".py", num_python, python_mutants), (".hpp", num_native, native_mutants)):
        mutants = [mutant for path, text in sources.items() if path.endswith(ending) for mutant in mutate(path, text)]
        sample += chance.sample(mutants, min(count, len(mutants)))
    chance.shuffle(sample)
    tests = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    headers_of = extensions()
    if num_native:
        translate()
    counts: Counter[str] = Counter()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        copy_tree(folder)
        for mutant in sample:
            if time.monotonic() - begin > seconds:
                break
            text = sources[mutant.path]
            if mutant.path.endswith(".hpp"):
                modules = [module for module, headers in headers_of.items() if mutant.path[4:] in headers]
                names = TESTS_OF[mutant.path.split("/")[1]].split()
                test_paths = [str(path) for name in names for path in Path("tests").rglob(f"{name}.py")]
                if not modules:
                    continue
            else:
                modules, line = [], text.count("\n", 0, mutant.begin) + 1
                test_paths = traced.tests(mutant.path, line) if traced else []
                test_paths = test_paths or tests_of(mutant.path, tests, files)
            kind = "native" if modules else "python"
            outcome, reason = put_to_tests(mutant, text, folder, modules, test_paths)
            counts[f"{kind} {outcome}"] += 1
            print(f"{outcome}  {mutant.describe(text)}  {reason}", flush=True)
    for kind in ("python", "native"):
        killed, survived = counts[f"{kind} killed"], counts[f"{kind} SURVIVED"]
        if killed + survived:
            print(f"{kind}: {killed} of {killed + survived} killed, {killed / (killed + survived):.0%}")


if __name__ == "__main__":
    main()
