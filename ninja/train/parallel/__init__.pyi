"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .block_momentum import BlockMomentum as BlockMomentum
from .pairwise import PairwiseAveraging as PairwiseAveraging
