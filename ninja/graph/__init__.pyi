"""The names of the package: `lazy_loader` imports them as this file says, and type checkers and editors read it."""

from .align.lexicon import align_words_lexicon as align_words_lexicon
from .align.phones import align_phones as align_phones
from .align.result import Aligned as Aligned
from .align.times import WordTime as WordTime, word_times as word_times
from .align.words import align_words as align_words
from .best_path import best_path as best_path, best_words as best_words, path_lattice as path_lattice
from .boost import boost as boost
from .build import arc_order as arc_order, from_arcs as from_arcs, top_sort as top_sort
from .combine import combine as combine
from .compose import compose as compose, interp as interp
from .connect import connect as connect, select_arcs as select_arcs
from .determinize import determinize as determinize, is_deterministic as is_deterministic
from .determinize_pruned import (
    DeterminizeBounds as DeterminizeBounds,
    DeterminizeReport as DeterminizeReport,
    determinize_phone_pruned as determinize_phone_pruned,
    determinize_pruned as determinize_pruned,
    determinize_retrying as determinize_retrying,
)
from .difference import difference as difference
from .epsilons import remove_epsilons as remove_epsilons
from .equivalent import equivalent as equivalent
from .expand_ngram import expand_ngram as expand_ngram
from .frame_posteriors import (
    FramePosteriors as FramePosteriors,
    accuracy_posteriors as accuracy_posteriors,
    frame_posteriors as frame_posteriors,
)
from .fst import to_fst as to_fst
from .kinds import to_compact as to_compact, to_raw as to_raw
from .limit_depth import limit_depth as limit_depth
from .linear import linear as linear
from .minimize import minimize as minimize
from .nbest import nbest as nbest
from .nbest_lattice import (
    lattice_nbest as lattice_nbest,
    nbest_lattice as nbest_lattice,
    nbest_lattices as nbest_lattices,
)
from .oracle import Oracle as Oracle, oracle as oracle, paths_of as paths_of
from .path import Path as Path
from .posteriors import (
    ForwardBackward as ForwardBackward,
    ProbableArcs as ProbableArcs,
    forward_backward as forward_backward,
    posteriors as posteriors,
    probable_arcs as probable_arcs,
)
from .project import project as project, remove_alignments as remove_alignments
from .prons import Pronunciation as Pronunciation, pronunciations as pronunciations
from .prune import prune as prune
from .push import push as push
from .reverse import reverse as reverse
from .sample import random_paths as random_paths
from .scale import add_word_penalty as add_word_penalty, scale as scale
from .times import (
    depth as depth,
    depth_per_frame as depth_per_frame,
    num_frames as num_frames,
    state_times as state_times,
)
from .transitions import add_transition_costs as add_transition_costs, to_phone_lattice as to_phone_lattice
from .union import union as union
