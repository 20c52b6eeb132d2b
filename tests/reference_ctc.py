"""Slow twins of ``ninja.graph.ctc``: every alignment, and every row of a file, one after the other."""

import itertools

import numpy as np


def collapsed(labels, blank):
    """Units of an alignment: repeats once, blanks left out."""
    return [unit for unit, _ in itertools.groupby(labels) if unit != blank]


def cut(spelled, units):
    """Words of a unit sequence, as tuples of units; kinds 0 goes on, 1 begins, 2 between, 3 never."""
    words, open_word = [], False
    for unit in spelled:
        kind = units.kind[unit]
        if kind == 3:
            return None
        if kind == 2:
            open_word = False
        elif kind == 1 or not open_word:
            words.append([unit])
            open_word = True
        else:
            words[-1].append(unit)
    return [tuple(word) for word in words]


def every_sentence(logprob, units):
    """Log-probability of each word sequence, words as texts, over all alignments."""
    frames, num_units = logprob.shape
    found = {}
    for labels in itertools.product(range(num_units), repeat=frames):
        words = cut(collapsed(labels, units.blank), units)
        if words is None:
            continue
        text = tuple("".join(units.text[unit] for unit in word) for word in words)
        score = sum(logprob[frame, unit] for frame, unit in enumerate(labels))
        if score > -np.inf:
            found[text] = np.logaddexp(found.get(text, -np.inf), score)
    return found


def segmentations(spelled, spellings):
    """Ways to cut a unit sequence into words of a lexicon, as tuples of spellings."""
    if not spelled:
        return [()]
    return [
        (spelled[:length], *rest)
        for length in range(1, len(spelled) + 1)
        if spelled[:length] in spellings
        for rest in segmentations(spelled[length:], spellings)
    ]


def every_cut(logprob, units, spellings):
    """Log-probability of each sequence of spellings of a lexicon whose words nothing separates."""
    frames, num_units = logprob.shape
    found = {}
    for labels in itertools.product(range(num_units), repeat=frames):
        score = sum(logprob[frame, unit] for frame, unit in enumerate(labels))
        for words in segmentations(tuple(collapsed(labels, units.blank)), spellings):
            if score > -np.inf:
                found[words] = np.logaddexp(found.get(words, -np.inf), score)
    return found


def best_alignment_cost(logprob, units, text):
    """Cost of the best alignment of a word sequence."""
    best = np.inf
    for labels in itertools.product(range(logprob.shape[1]), repeat=len(logprob)):
        words = cut(collapsed(labels, units.blank), units)
        if words is not None and tuple("".join(units.text[unit] for unit in word) for word in words) == text:
            best = min(best, -sum(logprob[frame, unit] for frame, unit in enumerate(labels)))
    return best
