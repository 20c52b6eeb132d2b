"""Slow reader of OpenFst's text: line by line, in plain Python."""

import math
import re

import numpy as np

from ninja import _core
from ninja.errors import FormatError, LatticeError, SymbolError
from ninja.formats.content import EPSILON_NAME, Naming
from ninja.formats.fst_binary import read_fst
from ninja.lattice.symbols import EPSILON, LARGEST_ID

_INTEGER = re.compile(rb"[0-9]{1,10}")
_NUMBER = re.compile(rb"(?=.*[-.eE])[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WEIGHT = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?|[+-]?[iI]nf(?:inity)?")


def read_slowly(content, key, path, words, options, *, line=1):
    """Accept the arguments, and return the result or raise the errors, of ``ninja.formats.fst_text.read_fst_text``."""
    lines = [(number, row) for number, row in enumerate(map(bytes.split, content.split(b"\n")), start=line) if row]
    unended = bool(content.split(b"\n")[-1].split())
    return _lattice(lines, Naming(key, path, words, options.encoding), options, unended)


def _lattice(lines, naming, options, unended):
    def refuse(message, line):
        return FormatError(message, naming.path, key=naming.key, line=line)

    if unended:
        message = "the last line has no newline, so the file may be truncated; if it is complete, add a newline"
        raise refuse(message, lines[-1][0])
    if not lines:
        raise LatticeError("the FST is empty: it has no states", naming.path, key=naming.key)
    acceptor = options.acceptor
    if acceptor is None:
        acceptor = _is_acceptor(lines, naming.words, options)
    max_fields = 4 if acceptor else 5
    arcs = []  # source, destination, label, line
    costs = []
    finals = {}
    for number, row in lines:
        if len(row) in (1, 2):
            finals[_state(row[0], number, refuse)] = _weight(row[1], number, refuse) if len(row) == 2 else 0.0
        elif max_fields - 1 <= len(row) <= max_fields:
            label = row[2 if acceptor else 3]
            arcs.append((_state(row[0], number, refuse), _state(row[1], number, refuse), label, number))
            costs.append(_weight(row[-1], number, refuse) if len(row) == max_fields else 0.0)
        else:
            kind = "an acceptor" if acceptor else "a transducer"
            raise refuse(
                f"the line has {len(row)} fields, but no arc or final state of {kind} has this number of fields", number
            )
    described = {*finals, *(arc[0] for arc in arcs)}
    for _, state, _, number in arcs:
        if state not in described:
            name = next(row[1] for line, row in lines if line == number).decode()
            message = f"state {name} has no line; add 'STATE Infinity' for a dead end, or copy a truncated file again"
            raise refuse(message, number)
    word, table = _words([(label, number) for _, _, label, number in arcs], naming, options)
    names = np.array([[arc[0], arc[1]] for arc in arcs], np.int64).reshape(-1, 2)
    start_name = _state(lines[0][1][0], lines[0][0], refuse)
    states = np.unique(np.concatenate([names.ravel(), list(finals), [start_name]]).astype(np.int64))
    place = np.searchsorted(states, names)
    start = int(np.searchsorted(states, start_name))
    if start:  # images start in state 0; the returned lattice is sorted
        place = np.where(place == start, 0, np.where(place == 0, start, place))
    order = np.argsort(place[:, 0], kind="stable")
    final = np.full(len(states), math.inf)
    for state, weight in finals.items():
        at = int(np.searchsorted(states, state))
        final[0 if at == start else start if at == 0 else at] = weight
    begin = np.searchsorted(place[order, 0], np.arange(len(states) + 1)).astype(np.int64)
    dst, word = place[order, 1].astype(np.int32), word[order]
    image = _core.write_image("log64", begin, dst, word, word, np.array(costs, np.float64)[order], final)
    lattice = read_fst(image, naming.key, naming.path)
    return lattice if table is None else lattice.with_words(table)


def _is_acceptor(lines, words, options):
    """Decide by the lines whether arcs have one label; four fields may be two labels, or one and a weight."""
    if any(len(row) == 5 for _, row in lines):
        return False
    if any(len(row) == 3 for _, row in lines):
        return True
    fourth = [row[3] for _, row in lines if len(row) == 4]
    if options.labels != "words" and all(map(_INTEGER.fullmatch, fourth)):
        return False
    if words is not None and options.labels != "ids":
        return not all(label.decode(options.encoding, "replace") in words for label in fourth)
    repeats = bool(fourth) and all(row[2] == row[3] for _, row in lines if len(row) == 4)
    return not repeats and all(map(_WEIGHT.fullmatch, fourth))


def _state(text, line, refuse):
    if not _INTEGER.fullmatch(text) or int(text) > LARGEST_ID:
        raise refuse(f"{_quoted(text)} is not a state", line)
    return int(text)


def _weight(text, line, refuse):
    if not _WEIGHT.fullmatch(text) or (b"n" not in text and math.isinf(float(text))):
        raise refuse(f"{_quoted(text)} is not a weight", line)
    return float(text)


def _quoted(text):
    return repr(text[:40].decode("utf-8", "replace"))


def _words(labelled_lines, naming, options):
    """Return the id of each label, int32 [arcs], and the symbol table."""
    labels = dict.fromkeys(label for label, _ in labelled_lines)
    ids = options.labels == "ids" or (options.labels == "auto" and all(map(_INTEGER.fullmatch, labels)))
    if not ids:
        for label, line in labelled_lines if options.labels == "auto" and naming.words is None else ():
            if not _INTEGER.fullmatch(label) and _NUMBER.fullmatch(label):
                message = (
                    f"{_quoted(label)} is not a label; add the missing label or, if this is a word, "
                    "specify --from fst-text:labels=words"
                )
                raise FormatError(message, naming.path, key=naming.key, line=line)
        names = {label: line for label, line in reversed(labelled_lines)}
        null = EPSILON_NAME.encode()
        table_ids, table = naming.table([(label, names[label]) for label in labels if label != null])
        id_of = dict(zip([label for label in labels if label != null], table_ids[1:].tolist(), strict=True))
        id_of[null] = EPSILON
        return np.array([id_of[label] for label, _ in labelled_lines], np.int32), table
    for label, line in labelled_lines:
        if not _INTEGER.fullmatch(label) or int(label) > LARGEST_ID:
            raise FormatError(f"{_quoted(label)} is not a label", naming.path, key=naming.key, line=line)
        if naming.words is not None and int(label) != EPSILON:
            try:
                naming.words.word(int(label))
            except SymbolError as error:
                raise SymbolError(error.message, naming.path, key=naming.key, line=line) from None
    return np.array([int(label) for label, _ in labelled_lines], np.int32), naming.words
