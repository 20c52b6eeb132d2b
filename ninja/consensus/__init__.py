"""Minimum-Bayes-risk (consensus) decoding, word confidences, confusion networks and CTM output."""

from ninja.consensus.confidence import sentence_confidence
from ninja.consensus.ctm import consensus_ctm, path_ctm
from ninja.consensus.decode import Consensus, mbr_decode
from ninja.consensus.network import confusion_network, lattice_mesh, without_empty_bins
from ninja.lattice.network import ConfusionNetwork

__all__ = [
    "ConfusionNetwork",
    "Consensus",
    "confusion_network",
    "consensus_ctm",
    "lattice_mesh",
    "mbr_decode",
    "path_ctm",
    "sentence_confidence",
    "without_empty_bins",
]
