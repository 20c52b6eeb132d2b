"""Slow implementations of ``ninja.decoding.ctc``: alignments, and arcs of a lattice, are processed one by one."""

import itertools

import numpy as np

from ninja import SymbolTable
from ninja.graph import from_arcs


def collapse(labels, blank):
    """Return the units of an alignment: repetitions merged, blanks removed."""
    return [unit for unit, _ in itertools.groupby(labels) if unit != blank]


def split_words(spelled, units):
    """Return the words of a unit sequence, as tuples of units.

    Units of kind 0 continue a word, those of kind 1 begin one, and those of kind 2 separate words; kind 3 is invalid.
    """
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


def sentence_scores(logprob, units):
    """Return the log-probability of each word sequence, words as texts, over all alignments."""
    frames, num_units = logprob.shape
    scores = {}
    for labels in itertools.product(range(num_units), repeat=frames):
        words = split_words(collapse(labels, units.blank), units)
        if words is None:
            continue
        text = tuple("".join(units.text[unit] for unit in word) for word in words)
        score = sum(logprob[frame, unit] for frame, unit in enumerate(labels))
        if score > -np.inf:
            scores[text] = np.logaddexp(scores.get(text, -np.inf), score)
    return scores


def segmentations(spelled, spellings):
    """Return all ways to split a unit sequence into words of a lexicon, as tuples of spellings."""
    if not spelled:
        return [()]
    return [
        (spelled[:length], *words)
        for length in range(1, len(spelled) + 1)
        if spelled[:length] in spellings
        for words in segmentations(spelled[length:], spellings)
    ]


def segmentation_scores(logprob, units, spellings):
    """Return the log-probability of each sequence of spellings of a lexicon without word separators."""
    frames, num_units = logprob.shape
    scores = {}
    for labels in itertools.product(range(num_units), repeat=frames):
        score = sum(logprob[frame, unit] for frame, unit in enumerate(labels))
        for words in segmentations(tuple(collapse(labels, units.blank)), spellings):
            if score > -np.inf:
                scores[words] = np.logaddexp(scores.get(words, -np.inf), score)
    return scores


def best_alignment_cost(logprob, units, text):
    """Return the cost of the best alignment of a word sequence."""
    best = np.inf
    for labels in itertools.product(range(logprob.shape[1]), repeat=len(logprob)):
        words = split_words(collapse(labels, units.blank), units)
        if words is not None and tuple("".join(units.text[unit] for unit in word) for word in words) == text:
            best = min(best, -sum(logprob[frame, unit] for frame, unit in enumerate(labels)))
    return best


def slow_search(logprob, units, spellings, options):
    """Return the log-probability of each final word sequence of a beam search; prefixes are tuples of (unit,
    begins)."""

    def open_word(prefix):
        if not prefix or units.kind[prefix[-1][0]] == 2:
            return None
        begin = max(at for at, (_, begins) in enumerate(prefix) if begins)
        return tuple(unit for unit, _ in prefix[begin:])

    def allowed(word):
        return spellings is None or any(spelled[: len(word)] == word for spelled in spellings)

    def is_word(word):
        return spellings is None or word in spellings

    cuts = spellings is not None and 2 not in units.kind

    def extensions(prefix, tried):
        word = open_word(prefix)
        for unit in tried:
            kind = units.kind[unit]
            if kind == 2:
                if word is not None and is_word(word):
                    yield (*prefix, (unit, False))
                continue
            if word is not None and kind == 0 and allowed((*word, unit)):
                yield (*prefix, (unit, False))
            begins = word is None or (is_word(word) and (kind == 1 or cuts))
            if begins and allowed((unit,)):
                yield (*prefix, (unit, True))

    now = {(): (0.0, -np.inf)}
    for frame in logprob:
        tried = sorted(range(len(frame)), key=lambda unit: (-frame[unit], unit))[: options.max_units or None]
        tried = [unit for unit in tried if units.kind[unit] != 3]
        later = {}
        for prefix, (blank, label) in now.items():
            total = np.logaddexp(blank, label)
            if open_word(prefix) is not None:
                label = label + frame[prefix[-1][0]]
            else:
                label = np.logaddexp.reduce([-np.inf, *(total + frame[units.kind == 2])])
            later[prefix] = (total + frame[units.blank], label)
        for prefix, (blank, label) in now.items():
            for extended in extensions(prefix, tried):
                unit = extended[-1][0]
                before = blank if prefix and prefix[-1][0] == unit else np.logaddexp(blank, label)
                target_scores = later.get(extended, (-np.inf, -np.inf))
                later[extended] = (target_scores[0], np.logaddexp(target_scores[1], before + frame[unit]))
        total = {prefix: np.logaddexp(*scores) for prefix, scores in later.items()}
        survivors = sorted((prefix for prefix in later if total[prefix] > -np.inf), key=lambda prefix: -total[prefix])
        survivors = survivors[: options.beam or None]
        now = {
            prefix: later[prefix] for prefix in survivors if total[prefix] >= total[survivors[0]] - options.score_beam
        }
    results = {}
    for prefix, scores in now.items():
        word = open_word(prefix)
        if word is not None and not is_word(word):
            continue
        words = []
        for unit, begins in prefix:
            if begins:
                words.append("")
            if units.kind[unit] != 2:
                words[-1] += units.text[unit]
        results[tuple(words)] = np.logaddexp(results.get(tuple(words), -np.inf), np.logaddexp(*scores))
    return results


def slow_lattice(hypotheses, key, num_frames, blank, words=None, unknown=None):
    """Return the lattice of hypotheses, the most probable first, arc by arc."""
    if words is None:
        words = SymbolTable.from_words(
            ["<eps>", *dict.fromkeys(word for hypothesis in hypotheses for alike in hypothesis.words for word in alike)]
        )
    arcs, labels, time, cost_to, below, paused, ends = [], [], [0], [0.0], [{}], {}, {}

    def state(frame, cost):
        time.append(frame)
        cost_to.append(cost)
        below.append({})
        return len(time) - 1

    for hypothesis in hypotheses:
        at = 0
        for alike, begin, end, cost in zip(
            hypothesis.words, hypothesis.begin, hypothesis.end, hypothesis.cost, strict=True
        ):
            ids = tuple(dict.fromkeys(words.id(word if word in words else unknown) for word in alike))
            if ids not in below[at]:
                late = max(begin, time[at])
                source = at
                if late > time[at]:
                    if (at, late) not in paused:
                        paused[at, late] = state(late, cost_to[at])
                        arcs.append((at, paused[at, late], 0, 0.0))
                        labels.append([blank + 1] * (late - time[at]))
                    source = paused[at, late]
                target = state(max(end, late), cost_to[at] + float(np.float32(cost)))
                arcs += [(source, target, number, cost) for number in ids]
                labels += [(hypothesis.alignment[late : time[target]] + 1).tolist()] * len(ids)
                below[at][ids] = target
            at = below[at][ids]
        ends.setdefault(at, -hypothesis.score - cost_to[at])
    arcs += [(at, len(time), 0, cost) for at, cost in ends.items()]
    labels += [[blank + 1] * (num_frames - time[at]) for at in ends]
    src, dst, word, acoustic = zip(*arcs, strict=True)
    return from_arcs(key, src, dst, word, np.zeros(len(arcs)), acoustic, finals={len(time): 0.0}, labels=labels)
