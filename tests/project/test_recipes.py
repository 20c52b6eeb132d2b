"""The recipes of CONTRIBUTING.md work: each is followed in a copy of the package, and touches the files it lists."""

from recipes import PackageCopy, recipe_code, recipe_files

TOY_LATTICE = "TOY\nhello 1.5\nworld -2\n"
CONVERT_IN_PYTHON = """
import ninja
((key, lattice),) = ninja.read("unnamed")  # detected by its first bytes
with ninja.write("written.toy") as output:  # by its extension
    output.write(lattice)
print(ninja.__file__, key, lattice.graph.tolist())
"""


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
