"""The formats that lattices are written in besides Kaldi's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ninja.io.writing import lattices, lists, options
from ninja.io.writing.options import Asked
from ninja.io.writing.output import Wants


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is written."""

    options: Callable[..., Any]
    wants: Literal["lattice", "nbest", "mesh"]
    lost: Callable[[Any, Asked], list[str]]  # from a lattice, list or text
    encode: Callable[[Any, Asked], bytes] | None = None  # None: there is more to it
    one: bool = False  # one lattice a file
    ids: bool = False  # of words, not names
    # What tells the key: the file, its name, the order alone; or nothing, where names and numbers are made into one.
    key: Literal["inside", "name", "number", "nothing"] = "inside"
    parted: bool = False  # a blank parts keys from what follows
    once: bool = False  # a key may stand there only once
    text: bool = False  # keys are text in the file's encoding; elsewhere they may be any bytes


def wants(form: Format, options: Any) -> Wants:
    """Return what an output of a format takes."""
    fields = ("n", "acoustic_scale", "lm_scale", "word_penalty") if form.wants != "lattice" else ()
    return Wants(form.wants, **{name: getattr(options, name) for name in fields if hasattr(options, name)})


FORMATS = {
    "slf": Format(options.Slf, "lattice", lattices.slf_lost, lattices.slf, one=True, text=True),
    "sphinx": Format(options.Sphinx, "lattice", lattices.sphinx_lost, lattices.sphinx, one=True, key="name"),
    "pfsg": Format(options.OneCost, "lattice", lattices.pfsg_lost, lattices.pfsg, parted=True, text=True),
    "plf": Format(options.Plf, "lattice", lattices.plf_lost, lattices.plf, key="nothing"),
    "mesh": Format(options.Mesh, "mesh", lists.mesh_lost, lists.mesh, one=True, parted=True, text=True),
    "openfst": Format(options.Openfst, "lattice", lattices.fst_lost, lattices.fst, one=True, ids=True, key="name"),
    "fst-text": Format(
        options.FstText, "lattice", lattices.fst_text_lost, lattices.fst_text, one=True, ids=True, key="name"
    ),
    "fst-ark": Format(
        options.FstArchive, "lattice", lattices.fst_entry_lost, lattices.fst_entry, ids=True, parted=True
    ),
    "k2": Format(options.K2, "lattice", lattices.k2_lost, ids=True),
    "native": Format(options.Nothing, "lattice", lattices.native_lost),
    "json": Format(options.Lists, "nbest", lists.objects_lost, lists.objects, once=True, text=True),
    "srilm": Format(options.Srilm, "nbest", lists.srilm_lost, lists.srilm, one=True, key="name"),
    "nemo": Format(options.Nemo, "nbest", lists.nemo_lost, lists.nemo, key="number"),
    "espnet": Format(options.Lists, "nbest", lists.espnet_lost, once=True, parted=True, text=True),
    "nbest-kaldi": Format(options.Lists, "nbest", lists.kaldi_lost, ids=True, parted=True),
}
