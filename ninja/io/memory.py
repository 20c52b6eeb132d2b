"""Conversion of n-best lists and k2 FSAs in memory to lattices, and of lattices to k2 FSAs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ninja.errors import DependencyError, LatticeError, OptionError
from ninja.formats.k2 import K2Options, k2_attributes, k2_lattices
from ninja.formats.nbest.lattices import nbest_lattice
from ninja.lattice import Lattice, SymbolTable
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.lattice import check_description
from ninja.lattice.nbest import Hypothesis, NBest, sentence

Text = str | Sequence[str]
Scored = tuple[Text, float] | tuple[Text, float, float]
ROW = "(text, score) or (text, acoustic score, LM score)"


def from_nbest(
    key: str,
    hypotheses: Iterable[Scored],
    *,
    scores: Literal["logprob", "cost"] = "logprob",
    words: SymbolTable | None = None,
) -> Lattice:
    """Convert the n-best list of an utterance, such as the output of Whisper, NeMo or Hugging Face, to a lattice.

    Each hypothesis becomes a path of the lattice; hypotheses with a common prefix share its arcs. The costs of a
    hypothesis are stored at the final state of its path, as unscaled natural-log costs.

    Args:
        key: Utterance id.
        hypotheses: Pairs ``(text, score)`` or triples ``(text, acoustic score, LM score)``. The score or acoustic score
            becomes the acoustic cost, and the LM score becomes the graph cost. A text is a string, split at whitespace,
            or a sequence of words. Scores can be NumPy or torch scalars.
        scores: "logprob" for natural-log probabilities of sentences, where higher is better; "cost" for negative
            natural-log probabilities, as in Kaldi.
        words: Symbol table that contains the words, or a growing table (``SymbolTable.growing()``), to which the words
            are added. Use one table for all utterances in a file or rescoring run. None creates a table for this
            lattice.

    Returns:
        A lattice with at most one arc per word, plus one arc per hypothesis.

    Raises:
        LatticeError: A score is not finite, or exceeds the range of float32.
        OptionError: The key is empty or not a str, `words` is not a symbol table, a hypothesis is not a pair or triple
            as above, or `scores` is invalid.
        SymbolError: A word is not in ``words``, or is epsilon.
    """
    if scores not in ("logprob", "cost"):
        raise OptionError(f"scores is {scores!r}, but must be logprob or cost")
    check_description(key, words)
    if not key:
        raise OptionError("key is empty, but must be an utterance id")
    if isinstance(hypotheses, str):
        raise OptionError(f"hypotheses is a str, but must be a sequence of {ROW}")
    sign = -1.0 if scores == "logprob" else 1.0
    rows = tuple(_hypothesis(number, row, sign, key) for number, row in enumerate(hypotheses, start=1))
    return nbest_lattice(NBest(key, rows), words)


def _hypothesis(number: int, row: Scored, sign: float, key: str) -> Hypothesis:
    name = f"hypothesis {number} of {key!r}"
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 3):
        raise OptionError(f"{name} is {row!r:.60}, but must be {ROW}")
    text, *values = row
    words = text.split() if isinstance(text, str) else list(text) if isinstance(text, Sequence) else None
    if words is None or not all(isinstance(word, str) for word in words):
        raise OptionError(f"{name} has the text {text!r:.60}, but it must be a string or a sequence of words")
    costs = []
    for value in values:
        try:
            costs.append(sign * float(value) + 0.0)
        except (TypeError, ValueError, OverflowError) as error:
            raise OptionError(f"{name} has the score {value!r:.60}, but it must be a number") from error
        if not math.isfinite(costs[-1]):
            raise LatticeError(f"hypothesis {number} has the score {float(value)}; remove the hypothesis", key=key)
    acoustic, graph = costs if len(costs) == 2 else (*costs, 0.0)
    return sentence(words, graph, acoustic)


def from_k2(
    fsa: Any,
    keys: str | Sequence[str] | None = None,
    *,
    scores_are: Literal["acoustic", "graph"] = "acoustic",
    words: SymbolTable | None = None,
) -> list[Keyed]:
    """Convert a k2 Fsa or FsaVec to lattices.

    Costs are negated scores: ``lm_scores`` give the graph cost, and the rest of ``scores`` gives the acoustic cost.
    Words are the ``aux_labels``, or the labels if there are none. Gradients are dropped.

    Args:
        fsa: A ``k2.Fsa`` with one or more lattices, or the dictionary that its ``as_dict()`` returns.
        keys: Utterance ids, one per lattice; None uses 1, 2, ….
        scores_are: Whether ``scores`` give acoustic or graph costs if the Fsa has no ``lm_scores``.
        words: Symbol table to attach; None uses ``aux_labels_sym`` (or ``labels_sym``) of the Fsa, if present.

    Returns:
        Pairs ``(key, lattice)``.

    Raises:
        OptionError: The number of keys differs from the number of lattices, a key is not a str, or `words` is not a
            symbol table.
        FormatError: The argument is not an Fsa, or its arcs and attributes are inconsistent.
        LatticeError: A lattice has a cycle, a score that is not finite, or no path to its end.
    """
    key_list = None if keys is None else [keys] if isinstance(keys, str) else list(keys)
    for key in key_list or [""]:
        check_description(key, words)
    lattices = k2_lattices(fsa, K2Options(costs=scores_are), key_list and [str(key) for key in key_list])
    return [(lattice.key, lattice if words is None else lattice.with_words(words)) for lattice in lattices]


def to_k2(lattices: Lattice | Iterable[Keyed]) -> Any:
    """Convert lattices to a k2 FsaVec.

    ``scores`` are ``-(graph + acoustic)``, ``lm_scores`` are ``-graph``, and ``am_scores`` are ``-acoustic``.
    ``labels`` and ``aux_labels`` are word ids, or -1 on arcs to the final state. Keys, alignments and times are
    dropped; to keep them, save the lattices with ``ninja.write("lattices.pt")``.

    Args:
        lattices: A lattice, or pairs ``(key, lattice)``.

    Returns:
        A ``k2.Fsa`` with three axes; its tensors are on the CPU.

    Raises:
        DependencyError: k2 is not installed.
        LatticeError: A lattice has no final state, or costs exceed the range of single precision.
    """
    lattice_list = [lattices] if isinstance(lattices, Lattice) else [lattice for _, lattice in pairs(lattices)]
    attributes = k2_attributes(lattice_list)
    try:
        import k2
    except ImportError as error:
        message = "k2 is not installed; see https://k2-fsa.github.io/k2/installation, or write a file: "
        raise DependencyError(f'{message}ninja.write("lattices.pt")') from error
    import torch

    return k2.Fsa.from_dict({name: torch.from_numpy(values) for name, values in attributes.items()})
