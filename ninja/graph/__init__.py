"""Algorithms on lattices; each takes a lattice and returns something new.

Those that drop or sort arcs hand back the old arc of each new arc on request (``return_arc_map=True``), so any array
with a value per arc follows by indexing.
"""

from ninja.graph.best_path import best_path, path_lattice
from ninja.graph.build import from_arcs, top_sort
from ninja.graph.connect import connect, select_arcs
from ninja.graph.determinize import determinize, is_deterministic
from ninja.graph.epsilons import remove_epsilons
from ninja.graph.equivalent import equivalent
from ninja.graph.limit_depth import limit_depth
from ninja.graph.minimize import minimize
from ninja.graph.nbest import nbest
from ninja.graph.oracle import Oracle, oracle
from ninja.graph.path import Path
from ninja.graph.posteriors import ForwardBackward, forward_backward, posteriors
from ninja.graph.prune import prune
from ninja.graph.reverse import reverse
from ninja.graph.scale import add_word_penalty, scale
from ninja.graph.times import depth, depth_per_frame, num_frames, state_times

__all__ = [
    "ForwardBackward",
    "Oracle",
    "Path",
    "add_word_penalty",
    "best_path",
    "connect",
    "depth",
    "depth_per_frame",
    "determinize",
    "equivalent",
    "forward_backward",
    "from_arcs",
    "is_deterministic",
    "limit_depth",
    "minimize",
    "nbest",
    "num_frames",
    "oracle",
    "path_lattice",
    "posteriors",
    "prune",
    "remove_epsilons",
    "reverse",
    "scale",
    "select_arcs",
    "state_times",
    "top_sort",
]
