"""Read, prune and rescore the word lattices of speech recognisers.

    import ninja

    lm = ninja.lm.load()  # the shipped English model
    with ninja.write("rescored.ark.gz") as output:
        for key, lattice in ninja.rescore(ninja.read("lat.ark.gz", words="words.txt"), lm, ninja.RescoreOptions()):
            output.write(lattice)

Names are imported on first use, as listed in ``__init__.pyi``, so that importing the package is fast.
"""

import sys

TYPE_CHECKING = False  # importing `typing` would take longer than everything else
if TYPE_CHECKING:
    from collections.abc import Callable

    from ninja.lattice import Lattice

_attached: "tuple[Callable[[str], object], Callable[[], list[str]], list[str]] | None" = None


def _names() -> "tuple[Callable[[str], object], Callable[[], list[str]], list[str]]":
    """Return ``(__getattr__, __dir__, list of public names)`` for the package.

    ``lazy_loader`` is imported only when this function is called, because a build imports the package hundreds of times
    without using any of these names.
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
        # scikit-build-core and others import the package ``ninja`` to find the build tool, whose package has this name.
        import os

        from ninja.build_tool import find_build_tool

        value = os.path.dirname(find_build_tool() or sys.executable)
    elif name.startswith("_"):  # a compiled module, which the import system finds
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = _names()[0](name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_names()[1]()})


def _picture(lattice: "Lattice") -> str:
    """Return HTML that shows a lattice in a notebook."""
    from ninja.show import picture

    return picture(lattice)


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    _shell.display_formatter.formatters["text/html"].for_type_by_name("ninja.lattice.lattice", "Lattice", _picture)
