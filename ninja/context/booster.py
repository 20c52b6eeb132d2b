"""Create the tracker that boosts phrases, taking subsequent rescoring into account."""

from __future__ import annotations

from dataclasses import replace

from ninja.context.grammar.compile import ListCompiler
from ninja.context.grammar.tracker import Tracker
from ninja.context.loader import ContextModels
from ninja.context.options import ContextOptions
from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable


def make_booster(
    words: SymbolTable,
    models: ContextModels,
    options: ContextOptions,
    *,
    lm_weight: float | None,
    has_old_lm: bool,
    compiler: ListCompiler | None = None,
    num_symbols: int | None = None,
) -> Tracker:
    """Create a tracker whose boosts have their specified size after rescoring.

    Args:
        words: Symbol table of the lattices.
        models: N-gram models.
        options: Boosts of phrases.
        lm_weight: LM weight of subsequent rescoring; None without rescoring.
        has_old_lm: Whether rescoring subtracts the old LM, in which case the weight of graph costs does not change.
        compiler: See `Tracker`.
        num_symbols: See `Tracker`.

    Raises:
        OptionError: ``lm_weight`` is 1 or more without an old LM, which would remove the boosts together with the graph
            costs.
    """
    lm_scale = 1.0
    if lm_weight is not None:
        share = 1.0 - lm_weight
        if has_old_lm:
            # Rescoring subtracts the rest of the old LM.
            lm_scale = share if models.class_lm is not None else 1.0
        elif share > 0.0:
            options = replace(
                options, keyword_boost=options.keyword_boost / share, class_boost=options.class_boost / share
            )
        else:
            raise OptionError(
                f"lm_weight is {lm_weight:g}, so rescoring would remove the context boosts; set it below 1"
            )
    old_lm = models.old_lm if models.class_lm is not None else None
    return Tracker(
        words, models.class_lm, options, old_lm=old_lm, lm_scale=lm_scale, compiler=compiler, num_symbols=num_symbols
    )
