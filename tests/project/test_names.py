"""The names that packages import on first use: one list for users, editors and type checkers."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUBS = sorted((ROOT / "ninja").rglob("__init__.pyi"))
PACKAGES = [".".join(path.parent.relative_to(ROOT).parts) for path in STUBS]


def stub_names(package):
    """Return the module of each name in a package's stub; it is empty for names of modules."""
    tree = ast.parse((ROOT / package.replace(".", "/") / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    for node in imports:
        assert all(alias.asname == alias.name for alias in node.names), (
            "stubs export only names that are imported `as` themselves"
        )
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_stubs_exist_for_the_lazy_packages():
    assert {
        "ninja",
        "ninja.consensus",
        "ninja.context",
        "ninja.decoding",
        "ninja.evaluate",
        "ninja.graph",
        "ninja.lm",
        "ninja.rescoring",
        "ninja.serve",
        "ninja.show",
        "ninja.train",
        "ninja.train.parallel",
    } == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_agree_with_the_stub(package):
    names, package_module = stub_names(package), import_module(package)
    assert sorted(names) == sorted(package_module.__all__)
    assert set(names) <= set(dir(package_module))
    for name, module in names.items():
        if module:
            assert getattr(package_module, name) is getattr(import_module(f"{package}.{module}"), name)
        else:
            assert getattr(package_module, name) is import_module(f"{package}.{name}")


@pytest.mark.parametrize("package", PACKAGES)
def test_unknown_name_raises_attribute_error(package):
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = import_module(package).no_such_name


@pytest.mark.parametrize("first", ["import ninja.graph.prune, ninja.lm.load", "from ninja.graph import prune", "pass"])
def test_functions_hide_modules_of_the_same_name(first):
    script = f"{first}\nimport ninja\nassert callable(ninja.graph.prune) and callable(ninja.lm.load)\n"
    script += "import ninja.graph.prune, ninja.lm.load\nassert callable(ninja.graph.prune) and callable(ninja.lm.load)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=ROOT)


def test_star_import_has_every_public_name():
    names = {}
    exec("from ninja import *", names)
    assert set(stub_names("ninja")) <= set(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_jedi_completes_public_names(package):
    jedi = pytest.importorskip("jedi")
    project = jedi.Project(ROOT, smart_sys_path=False, sys_path=[str(ROOT), *sys.path])
    script = jedi.Script(f"import {package}\n{package}.", project=project)
    assert set(stub_names(package)) <= {completion.name for completion in script.complete()}
    for name in ("read", "Lattice") if package == "ninja" else ():
        (definition,) = jedi.Script(f"import ninja\nninja.{name}", project=project).infer(2, len(f"ninja.{name}"))
        assert definition.full_name.startswith("ninja.")
        assert definition.docstring()


def test_stubs_are_packaged(monkeypatch):
    monkeypatch.chdir(ROOT)
    setuptools = pytest.importorskip("setuptools")
    distribution = setuptools.Distribution({"packages": setuptools.find_packages(include=["ninja", "ninja.*"])})
    distribution.parse_config_files()
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    files = {f"{package}.{name}" for package, _, _, names in build.data_files for name in names}
    assert {f"{package}.__init__.pyi" for package in PACKAGES} <= files
    assert {"ninja.py.typed", "ninja._core.pyi"} <= files
