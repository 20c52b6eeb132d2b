"""Lattices from Python objects: n-best lists, and k2's FSAs, which are also made of lattices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ninja.errors import DependencyError, LatticeError, OptionError
from ninja.formats.k2 import K2Options, k2_attributes, k2_lattices
from ninja.formats.nbest.lattices import nbest_lattice
from ninja.lattice import Lattice, SymbolTable
from ninja.lattice.batch import Keyed, pairs
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
    """Make a lattice of the n-best list of an utterance, as Whisper, NeMo and Hugging Face give it.

    Its paths are the hypotheses, as a tree of their common prefixes. A path's costs are those of its hypothesis,
    natural-log costs, unscaled, at the end of the path.

    Args:
        key: Utterance id.
        hypotheses: ``(text, score)``, the score becoming the acoustic cost, or ``(text, acoustic score, LM score)``,
            the last one becoming the graph cost. A text is a string, split at white space, or a sequence of words.
            Scalars of numpy and torch are accepted.
        scores: "logprob": natural-log probabilities of whole sentences, higher is better; "cost": the same with the
            opposite sign, lower is better, as in Kaldi.
        words: Symbol table that has the words, or ``SymbolTable.growing()``, which adds them; use one table for all
            utterances of one file or one rescoring.  [default: a new table for the lattice]

    Returns:
        A lattice of at most ``sum of words`` arcs and one more for each hypothesis.

    Raises:
        LatticeError: A score is not finite.
        OptionError: The key is empty, a hypothesis has another form, or `scores` has another value.
        SymbolError: A word is not in ``words``.
    """
    if scores not in ("logprob", "cost"):
        raise OptionError(f"scores is {scores!r}, but must be logprob or cost")
    if not key:
        raise OptionError("key is empty, but an utterance id is needed: files tell lattices apart by it")
    if isinstance(hypotheses, str):
        raise OptionError(f"hypotheses is a str, but a sequence of {ROW} is needed")
    sign = -1.0 if scores == "logprob" else 1.0
    rows = tuple(_hypothesis(number, row, sign, key) for number, row in enumerate(hypotheses, start=1))
    return nbest_lattice(NBest(key, rows), words)


def _hypothesis(number: int, row: Scored, sign: float, key: str) -> Hypothesis:
    place = f"hypothesis {number} of {key!r}"
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 3):
        raise OptionError(f"{place} is {row!r:.60}, but {ROW} is needed")
    text, *values = row
    words = text.split() if isinstance(text, str) else list(text) if isinstance(text, Sequence) else None
    if words is None or not all(isinstance(word, str) for word in words):
        raise OptionError(f"{place} has the text {text!r:.60}, but a string or a sequence of words is needed")
    costs = []
    for value in values:
        try:
            costs.append(sign * float(value) + 0.0)
        except (TypeError, ValueError) as error:
            raise OptionError(f"{place} has the score {value!r:.60}, but {ROW} is needed") from error
        if not math.isfinite(costs[-1]):
            raise LatticeError(f"hypothesis {number} has the score {float(value)}; leave it out", key=key)
    acoustic, graph = costs if len(costs) == 2 else (*costs, 0.0)
    return sentence(words, graph, acoustic)


def from_k2(
    fsa: Any,
    keys: str | Sequence[str] | None = None,
    *,
    scores_are: Literal["acoustic", "graph"] = "acoustic",
    words: SymbolTable | None = None,
) -> list[Keyed]:
    """Make lattices of a k2 Fsa or FsaVec.

    Scores become costs with the opposite sign: ``lm_scores`` the graph cost, the rest of ``scores`` the acoustic cost.
    Words are the ``aux_labels``, or else the labels. Gradients are dropped.

    Args:
        fsa: A ``k2.Fsa`` of one lattice or of several, or the dictionary of its ``as_dict()``.
        keys: Utterance ids, one for each lattice.  [default: 1, 2, …]
        scores_are: The cost that scores become if the Fsa has no ``lm_scores``.
        words: Symbol table to attach.  [default: ``aux_labels_sym`` (``labels_sym``) of the Fsa, if it has one]

    Returns:
        A pair ``(key, lattice)`` for each lattice.

    Raises:
        OptionError: There are more or fewer keys than lattices.
        FormatError: The argument is no Fsa, or its arcs and attributes do not match.
        LatticeError: A lattice has a cycle, a score that is not finite, or no path to its end.
    """
    key_list = [keys] if isinstance(keys, str) else keys
    lattices = k2_lattices(fsa, K2Options(costs=scores_are), key_list)
    return [(lattice.key, lattice if words is None else lattice.with_words(words)) for lattice in lattices]


def to_k2(lattices: Lattice | Iterable[Keyed]) -> Any:
    """Make a k2 FsaVec of lattices.

    ``scores`` are ``-(graph + acoustic)``, ``lm_scores`` ``-graph``, ``am_scores`` ``-acoustic``; ``labels`` and
    ``aux_labels`` are the words' ids, -1 on the arcs into the final state. Keys, alignments and times are dropped;
    ``ninja.write("lattices.pt")`` keeps them in the file.

    Args:
        lattices: One lattice, or ``(key, lattice)`` pairs.

    Returns:
        A ``k2.Fsa`` with three axes, its tensors on the CPU.

    Raises:
        DependencyError: k2 is not installed.
        LatticeError: No state of a lattice is final, or costs are beyond single precision.
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
