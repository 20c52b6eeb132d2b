"""Public names of the package; `lazy_loader`, type checkers and editors read this file."""

from .block_momentum import BlockMomentum as BlockMomentum
from .pairwise import PairwiseAveraging as PairwiseAveraging
