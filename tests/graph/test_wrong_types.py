"""Arguments of wrong types, such as the pairs that `ninja.read` yields, are refused; the error names the type."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from reference_word_align import model_of
from strategies_align import BOUNDARY, PHONES

from ninja import consensus, graph
from ninja.errors import OptionError
from ninja.lattice import Lattice, SymbolTable
from ninja.lattice.text import LexicalForms
from ninja.lattice.word_phones import AlignLexicon

LATTICE = graph.linear("a", [1, 2, 3], [1, 1, 1], symbols=SymbolTable.from_words(["<eps>", "A", "B", "C"]))
NBEST = graph.lattice_nbest(LATTICE, 1)
DECODED = consensus.mbr_decode(LATTICE)
ARGUMENTS: dict[str, Any] = {  # values of the arguments without a default, by name
    "alignment": np.ones(3, np.int32),
    "b": LATTICE,
    "boundary": BOUNDARY,
    "criterion": "smbr",
    "keep": np.ones(3, np.bool_),
    "least": 0.5,
    "lexicon": AlignLexicon(np.array([1, 1, 1], np.int32), np.array([0, 3])),
    "max_arcs_per_frame": 1,
    "model": model_of(dict.fromkeys(PHONES, 1)),
    "n": 1,
    "other": LATTICE,
    "path": graph.best_path(LATTICE),
    "penalty": 1.0,
    "phone_of": np.ones(2, np.int32),
    "reference": [1],
    "second": LATTICE,
    "table": LexicalForms("basic").table(LATTICE),
    "transcript": [1],
    "words": [1],
}
WITHOUT_LATTICES = {  # functions whose first argument is not a lattice
    *("arc_order", "from_arcs", "linear", "top_sort", "nbest_lattice", "nbest_lattices"),
    *("confusion_network", "consensus_ctm", "with_confidences", "without_empty_bins", "read_confidence_model"),
}
SEVERAL = {"combine", "union"}  # functions that take an iterable of lattices


def functions(module: ModuleType) -> list[Callable[..., object]]:
    """Return the public functions whose first argument is a lattice or a batch."""
    public = [getattr(module, name) for name in module.__all__ if name not in WITHOUT_LATTICES | SEVERAL]
    return [function for function in public if inspect.isfunction(function)]


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        (("a", LATTICE), "a (key, lattice) pair"),
        ("a.lat", "a str"),
        (None, "None"),
        ([LATTICE], "a list"),
        ({}, "a dict"),
    ],
)
@pytest.mark.parametrize("function", functions(graph) + functions(consensus))
def test_arguments_that_are_not_lattices_are_refused(
    function: Callable[..., object], argument: object, kind: str
) -> None:
    _, *others = inspect.signature(function).parameters.values()
    values = [
        ARGUMENTS[other.name] for other in others if other.default is other.empty and other.kind != other.KEYWORD_ONLY
    ]
    with pytest.raises(OptionError, match=f"^expected a lattice, but got {re.escape(kind)}; pass "):
        function(argument, *values)


@pytest.mark.parametrize("function", [graph.union, graph.combine])
@pytest.mark.parametrize(
    ("argument", "kind"),
    [(("a", LATTICE), r"a \(key, lattice\) pair"), (LATTICE, "a Lattice"), (None, "None"), (3, "an int")],
)
def test_arguments_that_are_not_iterables_of_lattices_are_refused(
    function: Callable[..., Lattice], argument: object, kind: str
) -> None:
    with pytest.raises(
        OptionError, match=f"^expected an iterable of lattices, but got {kind}; pass a list of lattices$"
    ):
        function(argument)


@pytest.mark.parametrize("function", [consensus.confusion_network, consensus.consensus_ctm])
@pytest.mark.parametrize(("argument", "kind"), [(LATTICE, "a Lattice"), (("a", LATTICE), r"a \(key, lattice\) pair")])
def test_arguments_that_are_not_decoded_words_are_refused(
    function: Callable[..., object], argument: object, kind: str
) -> None:
    with pytest.raises(OptionError, match=f"^expected a Consensus, but got {kind}; pass the result of mbr_decode$"):
        function(argument)


def test_arguments_that_are_not_nbest_lists_are_refused() -> None:
    for argument, kind in ((LATTICE, "a Lattice"), (("a", LATTICE), r"a \(key, lattice\) pair")):
        with pytest.raises(OptionError, match=f"^expected an NBest, but got {kind}; use lattice_nbest to convert"):
            graph.nbest_lattice(argument)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function",
    [
        partial(graph.lattice_nbest, LATTICE, 1),
        partial(graph.nbest_lattice, NBEST),
        partial(consensus.confusion_network, DECODED),
        partial(consensus.consensus_ctm, DECODED),
        partial(consensus.path_ctm, LATTICE),
    ],
)
def test_words_that_are_not_a_symbol_table_are_refused(function: Callable[..., object]) -> None:
    with pytest.raises(OptionError, match=r"^words is 3, but must be a SymbolTable"):
        function(words=3)
