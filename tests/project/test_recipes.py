"""The recipes of CONTRIBUTING.md work in a copy of the package, and change the files that they list."""

import re

from recipes import ROOT, PackageCopy, recipe_code, recipe_files

import ninja
from ninja.rescoring.algorithms import ALGORITHMS

TOY_LATTICE = "TOY\nhello 1.5\nworld -2\n"
CONVERT_IN_PYTHON = """
import ninja
((key, lattice),) = ninja.read("unnamed")  # detected by its first bytes
with ninja.write("written.toy") as output:  # by its extension
    output.write(lattice)
print(ninja.__file__, key, lattice.graph.tolist())
"""

PAGE_TESTS = (
    "tests/cli/test_cli_help.py::test_each_command_has_a_summary_an_example_and_option_help",
    "tests/project/test_checks_page.py::test_every_command_has_a_line",
    "tests/project/test_python_api.py::test_every_command_has_a_call",
    "tests/project/test_kaldi_page.py",
)


def test_a_format_is_added_by_its_recipe(tmp_path):
    package = PackageCopy(tmp_path)
    (module,) = recipe_code("Add a format")
    package.add("ninja/formats/toy.py", module)
    package.replace("ninja/formats/format.py", '    "slf",\n', '    "toy",\n    "slf",\n')
    files = recipe_files("Add a format", "toy")
    assert package.touched == {file for file in files if file.startswith("ninja/")}
    (tmp_path / "unnamed").write_text(TOY_LATTICE)
    output = package.python("-c", CONVERT_IN_PYTHON)
    assert output == f"{tmp_path}/ninja/__init__.py unnamed [1.5, -2.0]\n"
    assert (tmp_path / "written.toy").read_text() == TOY_LATTICE
    package.python("-m", "ninja", "convert", "written.toy", "-o", "converted.slf")
    package.python("-m", "ninja", "convert", "converted.slf", "--to", "toy:scale=2", "-o", "folder")
    assert (tmp_path / "folder" / "converted.toy").read_text() == "TOY\nhello 3\nworld -4\n"


def test_a_command_is_added_by_its_recipe(tmp_path):
    package = PackageCopy(tmp_path)
    for path in ("docs", "pyproject.toml", "tests/conftest.py", "tests/support", *PAGE_TESTS):
        package.copy(path.partition("::")[0])
    (module,) = recipe_code("Add a command")
    package.add("ninja/cli/kaldi/clear_graph.py", module)
    for file, place, line in (
        ("ninja/cli/commands.py", '"add-penalty":', '"clear-graph": Entry("kaldi.clear_graph", HELP),'),
        ("docs/kaldi.md", "| lattice-add-penalty", "| lattice-clear-graph | `ninja clear-graph` | No options. |"),
        ("docs/python.md", "| `boost-ali`", "| `clear-graph` | `ninja.graph.scale` |"),
        ("docs/checks.md", "| `add-penalty`", "| `clear-graph` | the lattice | exact | `test_clear_graph` |"),
    ):
        package.replace(file, place, f"{line}\n{place}".replace("HELP", '"Set the graph costs of lattices to zero."'))
    package.add("tests/cli/test_clear_graph.py", "")
    files = recipe_files("Add a command", "clear_graph")
    assert package.touched == {re.sub("MODULE|COMMAND", "clear_graph", file) for file in files}
    package.python("-m", "ninja", "clear-graph", ROOT / "examples" / "lat.ark.gz", "-o", "acoustic.ark")
    assert not any(lattice.graph.any() for _, lattice in ninja.read(tmp_path / "acoustic.ark"))
    package.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *PAGE_TESTS)


def test_an_algorithm_is_added_by_its_recipe(tmp_path):
    package = PackageCopy(tmp_path)
    (module,) = recipe_code("Add an algorithm")
    package.add("ninja/rescoring/toy.py", module)
    options = "ninja/rescoring/algorithms.py"
    package.replace(options, "\nALGORITHMS", "from ninja.rescoring.toy import TOY, ToyOptions\n\nALGORITHMS")
    package.replace(options, "(ARCBEAM,", "(TOY, ARCBEAM,")
    package.replace(options, "class RescoreOptions(", "class RescoreOptions(ToyOptions, ")
    for page in ("docs/algorithms.md", "tests/rescoring/test_rescore.py"):
        package.copy(page)
    package.replace("docs/algorithms.md", "- **`nbest`**", "- **`toy`**: the best paths.\n- **`nbest`**")
    package.add("tests/rescoring/test_toy.py", "")
    assert package.touched == set(recipe_files("Add an algorithm", "toy"))
    command = ("-m", "ninja", "rescore", ROOT / "examples" / "lat.ark.gz", "--rnnlm", "english-ngram")
    package.python(*command, "--algorithm", "toy", "--toy-paths", 3, "-o", "toy.ark")
    package.python(*command, "--algorithm", "nbest", "--num-best", 3, "-o", "nbest.ark")
    assert (tmp_path / "toy.ark").read_bytes() == (tmp_path / "nbest.ark").read_bytes()
    help_text = " ".join(package.python("-m", "ninja", "rescore", "--help").split())
    assert "Search algorithm: toy (paths of the first pass), arcbeam" in help_text
    assert "Search: toy: --toy-paths INTEGER" in help_text


def test_each_algorithm_is_described():
    page = (ROOT / "docs" / "algorithms.md").read_text()
    assert [name for name in ALGORITHMS if f"`{name}`" not in page] == []


def test_a_language_model_is_added_by_its_recipe(tmp_path):
    package = PackageCopy(tmp_path)
    (module,) = recipe_code("Add a language model")
    package.add("ninja/lm/unigram.py", module)
    first = "    ModelFormat(CHECKPOINT,"
    line = '    ModelFormat("unigrams", _begins(b"UNIGRAM\\n"), "unigram:open_unigrams"),\n'
    package.replace("ninja/lm/load.py", first, line + first)
    files = recipe_files("Add a language model", "unigram")
    assert package.touched == {file for file in files if file.startswith("ninja/")}
    (tmp_path / "model").write_text("UNIGRAM\n<s> -99\n</s> -1\n<unk> -3\nyes -0.5\n")
    (tmp_path / "text").write_text("u1 yes no\n")
    assert package.python("-m", "ninja", "lm", "score", "model", "text") == "u1 -0.5 -3 -1\n"
    assert "unigrams" in package.python("-m", "ninja", "lm", "info", "model")
    lattices = ROOT / "examples" / "lat.ark.gz"
    words = ROOT / "examples" / "words.txt"
    options = ["--words", words, "--rnnlm", "model", "--max-unknown", "1", "-o", "rescored.ark"]
    package.python("-m", "ninja", "rescore", lattices, *options)
    assert len(list(ninja.read(tmp_path / "rescored.ark"))) == len(list(ninja.read(lattices)))
