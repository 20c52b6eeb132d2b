"""Algorithms on lattices; each takes a lattice and returns something new.

Those that drop or sort arcs hand back the old arc of each new arc on request (``return_arc_map=True``), so any array
with a value per arc follows by indexing.
"""

from ninja.graph.align import Aligned, WordTime, align_phones, align_words, align_words_lexicon, word_times
from ninja.graph.best_path import best_path, path_lattice
from ninja.graph.boost import boost
from ninja.graph.build import from_arcs, top_sort
from ninja.graph.combine import combine
from ninja.graph.compose import compose
from ninja.graph.connect import connect, select_arcs
from ninja.graph.determinize import determinize, is_deterministic
from ninja.graph.determinize_pruned import (
    DeterminizeBounds,
    DeterminizeReport,
    determinize_phone_pruned,
    determinize_pruned,
    determinize_retrying,
)
from ninja.graph.difference import difference
from ninja.graph.epsilons import remove_epsilons
from ninja.graph.equivalent import equivalent
from ninja.graph.expand_ngram import expand_ngram
from ninja.graph.frame_posteriors import FramePosteriors, accuracy_posteriors, frame_posteriors
from ninja.graph.fst import to_fst
from ninja.graph.interp import interp
from ninja.graph.kinds import to_compact, to_raw
from ninja.graph.limit_depth import limit_depth
from ninja.graph.linear import linear
from ninja.graph.minimize import minimize
from ninja.graph.nbest import nbest
from ninja.graph.nbest_lattice import lattice_nbest, nbest_lattice, nbest_lattices
from ninja.graph.oracle import Oracle, oracle, paths_of
from ninja.graph.path import Path
from ninja.graph.posteriors import ForwardBackward, forward_backward, posteriors
from ninja.graph.project import project, remove_alignments
from ninja.graph.prons import Pronunciation, pronunciations
from ninja.graph.prune import prune
from ninja.graph.push import push
from ninja.graph.reverse import reverse
from ninja.graph.sample import random_paths
from ninja.graph.scale import add_word_penalty, scale
from ninja.graph.transitions import add_transition_costs, to_phone_lattice
from ninja.graph.union import union
from ninja.lattice.times import depth, depth_per_frame, num_frames, state_times

__all__ = [
    "Aligned",
    "DeterminizeBounds",
    "DeterminizeReport",
    "ForwardBackward",
    "FramePosteriors",
    "Oracle",
    "Path",
    "Pronunciation",
    "WordTime",
    "accuracy_posteriors",
    "add_transition_costs",
    "add_word_penalty",
    "align_phones",
    "align_words",
    "align_words_lexicon",
    "best_path",
    "boost",
    "combine",
    "compose",
    "connect",
    "depth",
    "depth_per_frame",
    "determinize",
    "determinize_phone_pruned",
    "determinize_pruned",
    "determinize_retrying",
    "difference",
    "equivalent",
    "expand_ngram",
    "forward_backward",
    "frame_posteriors",
    "from_arcs",
    "interp",
    "is_deterministic",
    "lattice_nbest",
    "limit_depth",
    "linear",
    "minimize",
    "nbest",
    "nbest_lattice",
    "nbest_lattices",
    "num_frames",
    "oracle",
    "path_lattice",
    "paths_of",
    "posteriors",
    "project",
    "pronunciations",
    "prune",
    "push",
    "random_paths",
    "remove_alignments",
    "remove_epsilons",
    "reverse",
    "scale",
    "select_arcs",
    "state_times",
    "to_compact",
    "to_fst",
    "to_phone_lattice",
    "to_raw",
    "top_sort",
    "union",
    "word_times",
]
