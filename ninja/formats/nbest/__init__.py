"""N-best lists of every maker, and the lattices whose paths they are."""

from ninja.formats.nbest.columns import ColumnOptions, each_column_list, read_columns
from ninja.formats.nbest.ctm import CtmOptions, each_ctm_utterance, read_ctm
from ninja.formats.nbest.espnet import read_espnet, read_espnet_folder, write_espnet
from ninja.formats.nbest.json_text import no_document
from ninja.formats.nbest.kaldi import (
    each_kaldi_list,
    joined,
    linear_hypothesis,
    linear_lattices,
    read_kaldi_names,
    tables_nbest,
)
from ninja.formats.nbest.nemo import each_nemo, manifest_keys, read_nemo, write_nemo
from ninja.formats.nbest.objects import (
    DSTC10,
    ObjectFields,
    each_object,
    each_of,
    read_objects,
    write_objects,
)
from ninja.formats.nbest.prefixes import nbest_lattice, nbest_lattices
from ninja.formats.nbest.srilm import SrilmOptions, read_srilm, write_srilm
from ninja.lattice.nbest import Hypothesis, NBest, sentence

__all__ = [
    "DSTC10",
    "ColumnOptions",
    "CtmOptions",
    "Hypothesis",
    "NBest",
    "ObjectFields",
    "SrilmOptions",
    "each_column_list",
    "each_ctm_utterance",
    "each_kaldi_list",
    "each_nemo",
    "each_object",
    "each_of",
    "joined",
    "linear_hypothesis",
    "linear_lattices",
    "manifest_keys",
    "nbest_lattice",
    "nbest_lattices",
    "no_document",
    "read_columns",
    "read_ctm",
    "read_espnet",
    "read_espnet_folder",
    "read_kaldi_names",
    "read_nemo",
    "read_objects",
    "read_srilm",
    "sentence",
    "tables_nbest",
    "write_espnet",
    "write_nemo",
    "write_objects",
    "write_srilm",
]
