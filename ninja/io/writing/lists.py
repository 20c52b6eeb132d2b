"""N-best lists and word meshes as bytes, and what each of their formats would lose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninja.errors import OptionError
from ninja.io.writing import losses
from ninja.io.writing.options import Asked

if TYPE_CHECKING:
    from ninja.lattice.nbest import Hypothesis, NBest


def mesh(text: str, asked: Asked) -> bytes:
    """Return the bytes of a word mesh."""
    from ninja.formats.textual import encoded

    return encoded(text, asked.encoding, mesh_key(text))


def mesh_key(text: str) -> str:
    """Return the key that a word mesh says.

    Raises:
        OptionError: It is the text of something else.
    """
    name, _, key = text.partition("\n")[0].partition(" ")
    if name != "name":
        raise OptionError("the text is no word mesh; make it with ninja.consensus.mesh_text")
    return key


def mesh_lost(text: str, asked: Asked) -> list[str]:
    """Return what a word mesh has lost of the lattice it was made of, as far as it says so."""
    from ninja.formats.mesh import MeshText

    return list(text.lost) if isinstance(text, MeshText) else [losses.PATHS]


def objects(nbest: NBest, asked: Asked) -> bytes:
    """Return a line of JSON."""
    from ninja.formats.nbest import write_objects

    return recoded(write_objects([nbest], asked.words), asked, nbest.key)


def objects_lost(nbest: NBest, asked: Asked) -> list[str]:
    """Return what JSON would lose."""
    return losses.of_list(nbest, asked.options.n, times=nbest.frame_shift is not None)


def srilm(nbest: NBest, asked: Asked) -> bytes:
    """Return the bytes of a list of SRILM's."""
    from ninja.formats.nbest.srilm import FIRST, write_srilm

    variant = asked.options.variant
    joined = weighed(nbest, asked) if variant == FIRST else nbest
    return write_srilm(joined, variant, asked.words, encoding=asked.encoding)


def srilm_lost(nbest: NBest, asked: Asked) -> list[str]:
    """Return what a list of SRILM's would lose, seen by reading it."""
    from ninja.formats.nbest.srilm import FIRST, SECOND, SrilmOptions, read_srilm
    from ninja.formats.slf import SILENT

    variant = asked.options.variant
    joined = weighed(nbest, asked) if variant == FIRST else nbest
    timed = variant == SECOND
    lost = losses.of_list(nbest, asked.options.n, times=timed, words=timed)
    options = SrilmOptions(nbest.frame_shift or losses.NATURAL_SHIFT, asked.encoding, silent=frozenset())
    back = read_srilm(srilm(nbest, asked), nbest.key, None, options)
    pairs = list(zip(joined.hypotheses, back.hypotheses, strict=True))
    if any(not SILENT.isdisjoint(other.words) for other in back.hypotheses):
        lost.append(losses.SILENCES)
    if timed and any((one.begin or (), one.end or ()) != (other.begin, other.end) for one, other in pairs):
        lost.append(losses.TIMES)
    if timed and nbest.frame_shift not in (None, losses.NATURAL_SHIFT):
        lost.append(losses.FRAME_SHIFT)
    if variant == FIRST:
        lost += losses.sum_of_costs(nbest, acoustic_scale=asked.options.acoustic_scale)
    elif timed and any(one.graph[-1] for one, _ in pairs):
        lost.append(losses.APART)
    if any(losses.changed(_costs(one, variant), _costs(other, variant)) for one, other in pairs):
        lost.append(losses.DIGITS)
    return lost


def _costs(each: Hypothesis, variant: str) -> list[float]:
    """Return the costs that a variant holds."""
    if variant == "scores":
        return [each.graph_cost, each.acoustic_cost]
    if variant == "NBestList1.0":
        return [each.graph_cost + each.acoustic_cost]
    return [*each.graph[:-1], *each.acoustic[:-1], each.graph[-1] + each.acoustic[-1]]


def nemo(nbest: NBest, asked: Asked) -> bytes:
    """Return the lines of a list in a file of beams."""
    from ninja.formats.nbest import write_nemo

    score_as = asked.options.score_as
    joined = weighed(nbest, asked) if score_as == "total" else nbest
    return recoded(write_nemo([joined], asked.words, score_as=score_as), asked, nbest.key)


def nemo_lost(nbest: NBest, asked: Asked) -> list[str]:
    """Return what a file of beams would lose."""
    options = asked.options
    return losses.of_list(nbest, options.n) + losses.sum_of_costs(nbest, options.score_as, options.acoustic_scale)


def espnet(nbest: NBest, asked: Asked) -> dict[str, bytes]:
    """Return what a list adds to ESPnet's files, by their names."""
    from ninja.formats.nbest import write_espnet

    files = write_espnet([weighed(nbest, asked)], asked.words)
    return {name: recoded(content, asked, nbest.key) for name, content in files.items()}


def espnet_lost(nbest: NBest, asked: Asked) -> list[str]:
    """Return what ESPnet's files would lose."""
    options = asked.options
    return losses.of_list(nbest, options.n) + losses.sum_of_costs(nbest, acoustic_scale=options.acoustic_scale)


def kaldi_lost(nbest: NBest, asked: Asked) -> list[str]:
    """Return what an archive of linear lattices would lose: times where no labels say them."""
    labelled = all(each.labels is not None and any(each.labels) for each in nbest.hypotheses)
    return losses.of_list(nbest, asked.options.n, labels=True, times=labelled, words=True)


def weighed(nbest: NBest, asked: Asked) -> NBest:
    """Return a list with both costs scaled as they are in its order, for formats of one score."""
    graph, acoustic = asked.options.lm_scale, asked.options.acoustic_scale
    if graph == acoustic == 1.0:
        return nbest
    hypotheses = (
        replace(
            each,
            graph=tuple(graph * cost for cost in each.graph),
            acoustic=tuple(acoustic * cost for cost in each.acoustic),
        )
        for each in nbest.hypotheses
    )
    return replace(nbest, hypotheses=tuple(hypotheses))


def recoded(content: bytes, asked: Asked, key: str) -> bytes:
    """Return UTF-8 in the encoding asked for."""
    from ninja.formats.textual import encoded

    if asked.encoding == "utf-8":
        return content
    return encoded(content.decode("utf-8", "surrogateescape"), asked.encoding, key)
