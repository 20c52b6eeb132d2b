"""Better transcripts from word lattices: read, prune and rescore them with neural language models.

    import ninja

    lm = ninja.lm.load()  # the shipped English model
    with ninja.write("rescored.ark.gz") as output:
        for key, lattice in ninja.rescore(ninja.read("lat.ark.gz", words="words.txt"), lm, ninja.RescoreOptions()):
            output.write(lattice)

Names are imported when they are first used, so that importing the package costs nothing.
"""

import sys

TYPE_CHECKING = False  # `typing` itself would take longer to import than all the rest
if TYPE_CHECKING:
    from ninja import consensus, context, ctc, evaluate, formats, graph, lm, openfst, pipeline, rescoring, show, tune
    from ninja.ctc import from_ctc
    from ninja.errors import (
        BusyError,
        ClosedError,
        DependencyError,
        FormatError,
        InputError,
        LatticeError,
        ModelError,
        NinjaError,
        OptionError,
        OutputError,
        SymbolError,
        TableError,
        VocabularyError,
        WorkerError,
    )
    from ninja.io import ChosenScales, find_scales, keys, read, vocabulary, write
    from ninja.io.memory import from_k2, from_nbest, to_k2
    from ninja.lattice import Lattice, Scales, SymbolTable
    from ninja.rescoring import RescoreOptions, Rescorer, RescoreReport, coverage, rescore

    __version__: str
    BIN_DIR: str

__all__ = [
    "BusyError",
    "ChosenScales",
    "ClosedError",
    "DependencyError",
    "FormatError",
    "InputError",
    "Lattice",
    "LatticeError",
    "ModelError",
    "NinjaError",
    "OptionError",
    "OutputError",
    "RescoreOptions",
    "RescoreReport",
    "Rescorer",
    "Scales",
    "SymbolError",
    "SymbolTable",
    "TableError",
    "VocabularyError",
    "WorkerError",
    "consensus",
    "context",
    "coverage",
    "ctc",
    "evaluate",
    "find_scales",
    "formats",
    "from_ctc",
    "from_k2",
    "from_nbest",
    "graph",
    "keys",
    "lm",
    "openfst",
    "pipeline",
    "read",
    "rescore",
    "rescoring",
    "show",
    "to_k2",
    "tune",
    "vocabulary",
    "write",
]

_MODULES = (
    *("consensus", "context", "ctc", "evaluate", "formats", "graph", "lm", "openfst", "pipeline", "rescoring"),
    *("show", "tune"),
)
_HOME = {
    "ChosenScales": "ninja.io",
    "Lattice": "ninja.lattice",
    "Scales": "ninja.lattice",
    "SymbolTable": "ninja.lattice",
    "RescoreOptions": "ninja.rescoring",
    "RescoreReport": "ninja.rescoring",
    "Rescorer": "ninja.rescoring",
    "coverage": "ninja.rescoring",
    "rescore": "ninja.rescoring",
    "find_scales": "ninja.io",
    "from_ctc": "ninja.ctc",
    "from_k2": "ninja.io.memory",
    "from_nbest": "ninja.io.memory",
    "keys": "ninja.io",
    "read": "ninja.io",
    "to_k2": "ninja.io.memory",
    "vocabulary": "ninja.io",
    "write": "ninja.io",
}


def __getattr__(name: str) -> object:
    import importlib

    value: object
    if name in _MODULES:
        value = importlib.import_module(f"ninja.{name}")
    elif name in __all__:
        value = getattr(importlib.import_module(_HOME.get(name, "ninja.errors")), name)
    elif name == "__version__":
        value = importlib.import_module("ninja.doctor").installed_version()
    elif name == "BIN_DIR":
        # scikit-build-core and others ask the build tool's package, whose name we share, where its program lies.
        import os

        from ninja.build_tool import find_build_tool

        value = os.path.dirname(find_build_tool() or sys.executable)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _picture(lattice: "Lattice") -> str:
    """Draw a lattice at the end of a notebook's cell."""
    from ninja.show import picture

    return picture(lattice)


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    _shell.display_formatter.formatters["text/html"].for_type_by_name("ninja.lattice.lattice", "Lattice", _picture)
