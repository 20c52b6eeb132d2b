"""Minimum-Bayes-risk (consensus) decoding, word confidences, confusion networks and CTM output."""

from ninja.consensus.confidence import sentence_confidence
from ninja.consensus.confidence_model import ConfidenceModel, read_confidence_model
from ninja.consensus.ctm import consensus_ctm, path_ctm
from ninja.consensus.decode import Consensus, mbr_decode
from ninja.consensus.network import confusion_network, lattice_mesh, without_empty_bins
from ninja.consensus.word_confidences import WordConfidenceEstimator, WordConfidences, with_confidences
from ninja.lattice.network import ConfusionNetwork

__all__ = [
    "ConfidenceModel",
    "ConfusionNetwork",
    "Consensus",
    "WordConfidenceEstimator",
    "WordConfidences",
    "confusion_network",
    "consensus_ctm",
    "lattice_mesh",
    "mbr_decode",
    "path_ctm",
    "read_confidence_model",
    "sentence_confidence",
    "with_confidences",
    "without_empty_bins",
]
