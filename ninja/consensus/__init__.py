"""Consensus: decoding for the least expected error, word confidences, confusion networks, and files of them."""

from ninja.consensus.confidence import sentence_confidence
from ninja.consensus.ctm import consensus_ctm, path_ctm
from ninja.consensus.decode import Consensus, mbr_decode
from ninja.consensus.mesh import lattice_mesh, mesh_text, read_meshes, without_empty_bins
from ninja.consensus.network import ConfusionNetwork, confusion_network, json_text, read_json

__all__ = [
    "ConfusionNetwork",
    "Consensus",
    "confusion_network",
    "consensus_ctm",
    "json_text",
    "lattice_mesh",
    "mbr_decode",
    "mesh_text",
    "path_ctm",
    "read_json",
    "read_meshes",
    "sentence_confidence",
    "without_empty_bins",
]
