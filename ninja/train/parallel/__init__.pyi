"""The names of the package: `lazy_loader` imports them as this file says, and type checkers and editors read it."""

from .block_momentum import BlockMomentum as BlockMomentum
from .pairwise import PairwiseAveraging as PairwiseAveraging
