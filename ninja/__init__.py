"""Better transcripts from word lattices: read, prune and rescore them with neural language models.

    import ninja

    lm = ninja.lm.load()  # the shipped English model
    with ninja.write("rescored.ark.gz") as output:
        for key, lattice in ninja.rescore(ninja.read("lat.ark.gz", words="words.txt"), lm, ninja.RescoreOptions()):
            output.write(lattice)

Names are imported when they are first used, as ``__init__.pyi`` says, so that importing the package costs nothing.
"""

import sys

TYPE_CHECKING = False  # `typing` itself would take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable

    from ninja.lattice import Lattice

_attached: "tuple[Callable[[str], object], Callable[[], list[str]], list[str]] | None" = None


def _names() -> "tuple[Callable[[str], object], Callable[[], list[str]], list[str]]":
    """Return the function that imports a name, the one that lists the names, and the list of them.

    They are read when a name is first used: a build calls the launcher by the hundred, and needs no name.
    """
    global _attached
    if _attached is None:
        from lazy_loader import attach_stub

        _attached = attach_stub(__name__, __file__)
    return _attached


def __getattr__(name: str) -> object:
    value: object
    if name == "__all__":
        value = _names()[2]
    elif name == "__version__":
        from ninja.libraries import installed_version

        value = installed_version()
    elif name == "BIN_DIR":
        # scikit-build-core and others ask the build tool's package, whose name we share, where its program lies.
        import os

        from ninja.build_tool import find_build_tool

        value = os.path.dirname(find_build_tool() or sys.executable)
    else:
        value = _names()[0](name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_names()[1]()})


def _picture(lattice: "Lattice") -> str:
    """Draw a lattice at the end of a notebook's cell."""
    from ninja.show import picture

    return picture(lattice)


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    _shell.display_formatter.formatters["text/html"].for_type_by_name("ninja.lattice.lattice", "Lattice", _picture)
