"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .align.lexicon import align_words_lexicon as align_words_lexicon
from .align.phones import align_phones as align_phones
from .align.result import Aligned as Aligned
from .align.times import WordTime as WordTime, word_times as word_times
from .align.words import align_words as align_words
from .best_path import (
    best_path as best_path,
    best_words as best_words,
    path_lattice as path_lattice,
    random_paths as random_paths,
)
from .build import arc_order as arc_order, from_arcs as from_arcs, linear as linear, top_sort as top_sort
from .compose import compose as compose, interp as interp
from .connect import connect as connect, select_arcs as select_arcs
from .determinize import (
    determinize as determinize,
    is_deterministic as is_deterministic,
    remove_epsilons as remove_epsilons,
)
from .determinize_pruned import (
    DeterminizeBounds as DeterminizeBounds,
    DeterminizeReport as DeterminizeReport,
    determinize_phone_pruned as determinize_phone_pruned,
    determinize_pruned as determinize_pruned,
    determinize_retrying as determinize_retrying,
)
from .discriminative import (
    FramePosteriors as FramePosteriors,
    accuracy_posteriors as accuracy_posteriors,
    boost as boost,
    frame_posteriors as frame_posteriors,
)
from .equivalent import equivalent as equivalent
from .fst import to_fst as to_fst
from .kinds import (
    project as project,
    remove_alignments as remove_alignments,
    to_compact as to_compact,
    to_raw as to_raw,
)
from .lexical import LexicalLattice as LexicalLattice, lexical_lattice as lexical_lattice
from .minimize import minimize as minimize, push as push
from .nbest import (
    lattice_nbest as lattice_nbest,
    nbest as nbest,
    nbest_lattice as nbest_lattice,
    nbest_lattices as nbest_lattices,
)
from .oracle import Oracle as Oracle, oracle as oracle
from .path import Path as Path
from .posteriors import (
    ForwardBackward as ForwardBackward,
    ProbableArcs as ProbableArcs,
    forward_backward as forward_backward,
    posteriors as posteriors,
    probable_arcs as probable_arcs,
)
from .prune import limit_depth as limit_depth, prune as prune
from .reverse import reverse as reverse
from .scale import add_word_penalty as add_word_penalty, scale as scale
from .split import difference as difference, expand_ngram as expand_ngram, paths_of as paths_of
from .times import (
    depth as depth,
    depth_per_frame as depth_per_frame,
    num_frames as num_frames,
    state_times as state_times,
)
from .transitions import (
    Pronunciation as Pronunciation,
    add_transition_costs as add_transition_costs,
    pronunciations as pronunciations,
    to_phone_lattice as to_phone_lattice,
)
from .union import combine as combine, union as union
