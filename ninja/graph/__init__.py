"""Algorithms on lattices; each takes a lattice, and many take a `Batch` as well, and returns something new.

Those that drop or sort arcs hand back the old arc of each new arc on request (``return_arc_map=True``), so any array
with a value per arc follows by indexing. The module of a function is imported when the function is first used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ninja.formats.nbest.lattices import nbest_lattice as nbest_lattice, nbest_lattices as nbest_lattices
    from ninja.graph.align.lexicon import align_words_lexicon as align_words_lexicon
    from ninja.graph.align.phones import align_phones as align_phones
    from ninja.graph.align.result import Aligned as Aligned
    from ninja.graph.align.times import WordTime as WordTime, word_times as word_times
    from ninja.graph.align.words import align_words as align_words
    from ninja.graph.best_path import best_path as best_path, best_words as best_words, path_lattice as path_lattice
    from ninja.graph.boost import boost as boost
    from ninja.graph.build import arc_order as arc_order, from_arcs as from_arcs, top_sort as top_sort
    from ninja.graph.combine import combine as combine
    from ninja.graph.compose import compose as compose, interp as interp
    from ninja.graph.connect import connect as connect, select_arcs as select_arcs
    from ninja.graph.determinize import determinize as determinize, is_deterministic as is_deterministic
    from ninja.graph.determinize_pruned import (
        DeterminizeBounds as DeterminizeBounds,
        DeterminizeReport as DeterminizeReport,
        determinize_phone_pruned as determinize_phone_pruned,
        determinize_pruned as determinize_pruned,
        determinize_retrying as determinize_retrying,
    )
    from ninja.graph.difference import difference as difference
    from ninja.graph.epsilons import remove_epsilons as remove_epsilons
    from ninja.graph.equivalent import equivalent as equivalent
    from ninja.graph.expand_ngram import expand_ngram as expand_ngram
    from ninja.graph.frame_posteriors import (
        FramePosteriors as FramePosteriors,
        accuracy_posteriors as accuracy_posteriors,
        frame_posteriors as frame_posteriors,
    )
    from ninja.graph.fst import to_fst as to_fst
    from ninja.graph.kinds import to_compact as to_compact, to_raw as to_raw
    from ninja.graph.limit_depth import limit_depth as limit_depth
    from ninja.graph.linear import linear as linear
    from ninja.graph.minimize import minimize as minimize
    from ninja.graph.nbest import nbest as nbest
    from ninja.graph.nbest_lattice import lattice_nbest as lattice_nbest
    from ninja.graph.oracle import Oracle as Oracle, oracle as oracle, paths_of as paths_of
    from ninja.graph.path import Path as Path
    from ninja.graph.posteriors import (
        ForwardBackward as ForwardBackward,
        ProbableArcs as ProbableArcs,
        forward_backward as forward_backward,
        posteriors as posteriors,
        probable_arcs as probable_arcs,
    )
    from ninja.graph.project import project as project, remove_alignments as remove_alignments
    from ninja.graph.prons import Pronunciation as Pronunciation, pronunciations as pronunciations
    from ninja.graph.prune import prune as prune
    from ninja.graph.push import push as push
    from ninja.graph.reverse import reverse as reverse
    from ninja.graph.sample import random_paths as random_paths
    from ninja.graph.scale import add_word_penalty as add_word_penalty, scale as scale
    from ninja.graph.transitions import (
        add_transition_costs as add_transition_costs,
        to_phone_lattice as to_phone_lattice,
    )
    from ninja.graph.union import union as union
    from ninja.lattice.times import (
        depth as depth,
        depth_per_frame as depth_per_frame,
        num_frames as num_frames,
        state_times as state_times,
    )

_NAMES = {
    "formats.nbest.lattices": "nbest_lattice nbest_lattices",
    "graph.align.lexicon": "align_words_lexicon",
    "graph.align.phones": "align_phones",
    "graph.align.result": "Aligned",
    "graph.align.times": "WordTime word_times",
    "graph.align.words": "align_words",
    "graph.best_path": "best_path best_words path_lattice",
    "graph.boost": "boost",
    "graph.build": "arc_order from_arcs top_sort",
    "graph.combine": "combine",
    "graph.compose": "compose interp",
    "graph.connect": "connect select_arcs",
    "graph.determinize": "determinize is_deterministic",
    "graph.determinize_pruned": "DeterminizeBounds DeterminizeReport determinize_phone_pruned determinize_pruned "
    "determinize_retrying",
    "graph.difference": "difference",
    "graph.epsilons": "remove_epsilons",
    "graph.equivalent": "equivalent",
    "graph.expand_ngram": "expand_ngram",
    "graph.frame_posteriors": "FramePosteriors accuracy_posteriors frame_posteriors",
    "graph.fst": "to_fst",
    "graph.kinds": "to_compact to_raw",
    "graph.limit_depth": "limit_depth",
    "graph.linear": "linear",
    "graph.minimize": "minimize",
    "graph.nbest": "nbest",
    "graph.nbest_lattice": "lattice_nbest",
    "graph.oracle": "Oracle oracle paths_of",
    "graph.path": "Path",
    "graph.posteriors": "ForwardBackward ProbableArcs forward_backward posteriors probable_arcs",
    "graph.project": "project remove_alignments",
    "graph.prons": "Pronunciation pronunciations",
    "graph.prune": "prune",
    "graph.push": "push",
    "graph.reverse": "reverse",
    "graph.sample": "random_paths",
    "graph.scale": "add_word_penalty scale",
    "graph.transitions": "add_transition_costs to_phone_lattice",
    "graph.union": "union",
    "lattice.times": "depth depth_per_frame num_frames state_times",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)


class _Page(ModuleType):
    """The package, whose functions hide the modules of the same name."""

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"ninja.{_HOME[name]}"), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Put the function in the place of a module that has been imported."""
        super().__setattr__(name, getattr(value, name) if name in _HOME and isinstance(value, ModuleType) else value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOME})


sys.modules[__name__].__class__ = _Page
