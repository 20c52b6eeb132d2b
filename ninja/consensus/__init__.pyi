"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .confidence import sentence_confidence as sentence_confidence
from .confidence_model import ConfidenceModel as ConfidenceModel, read_confidence_model as read_confidence_model
from .ctm import consensus_ctm as consensus_ctm, path_ctm as path_ctm
from .decode import Consensus as Consensus, mbr_decode as mbr_decode
from .network import (
    ConfusionNetwork as ConfusionNetwork,
    confusion_network as confusion_network,
    lattice_mesh as lattice_mesh,
    without_empty_bins as without_empty_bins,
)
from .word_confidences import (
    WordConfidenceEstimator as WordConfidenceEstimator,
    WordConfidences as WordConfidences,
    with_confidences as with_confidences,
)
