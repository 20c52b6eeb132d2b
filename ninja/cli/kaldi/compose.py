"""``ninja compose``, ``ninja interp`` and ``ninja difference``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ninja.cli.kaldi.joined import Joined, joins_archives
from ninja.cli.options import lattice_output, resume
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, named, reads_lattices_alone
from ninja.cli.switches import rewrite, switch
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.lattice import Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Each, Keyed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ninja.lattice.fst import Fst


@dataclass(frozen=True, slots=True)
class Composing:
    """Composes a lattice with an FST, or with the lattice of the same key."""

    machine: Fst | None
    phi_label: int | None
    compact: bool

    def __call__(self, lattice: Lattice, others: Sequence[Lattice | None] = ()) -> Lattice:
        """Compose a lattice."""
        from ninja.graph import compose
        from ninja.graph.kinds import to_compact, to_raw

        other = self.machine if self.machine is not None else others[0]
        assert other is not None
        composed = compose(lattice, other, self.phi_label)
        return to_compact(composed) if self.compact else to_raw(composed)


@click.command()
@joins_archives("The composed lattices", others="OTHER")
@click.option("--phi-label", type=click.IntRange(1), metavar="ID", help="Input label of an FST's back-off arcs.")
@switch("--write-compact", True, "Write word lattices rather than lattices with a label an arc.")
def compose(joined: Joined, output_file: str, phi_label: int | None, write_compact: bool, resume: bool) -> None:
    """Compose lattices with an FST, or with other lattices.

    OTHER is an FST of OpenFst, such as Kaldi's G.fst, whose costs are added to the graph costs of the paths it accepts.
    Or it is a folder, or an rspecifier (ark:..., scp:...), of lattices, of which those of the same key add both their
    costs. Alignments are those of FIRST.

    \b
    Example:
      ninja compose lat.ark G.fst --phi-label 200005 -o composed.ark
      ninja compose lat.ark ark:other.ark -o composed.ark
    """
    (other,) = joined.others
    reading = joined.reading
    if _is_table(other):
        if phi_label is not None:
            raise OptionError("--phi-label is for FSTs, but OTHER names lattices")
        joined.write(output_file, Composing(None, None, write_compact), resume=resume, needed=True)
        return
    check_places([output_file], [other], reading)
    reading.beside = ()
    if reading.words is None and reading.table() is not None:
        raise OptionError(f"{other} holds ids of words, but {reading.source[0]} spells them; give --words")
    rewrite(reading, output_file, Composing(_machine(other), phi_label, write_compact), resume=resume)


def _machine(path: str) -> Fst:
    from ninja.formats.fst_image import read_transducer

    try:
        return read_transducer(path)
    except FormatError as error:
        error.message += f"; if these are lattices, write ark:{path}"
        raise


def _is_table(name: str) -> bool:
    """Tell whether a source is a folder or an rspecifier, as Kaldi's ClassifyRspecifier does."""
    if os.path.isdir(name):
        return True
    head, colon, _ = name.partition(":")
    return bool(colon) and bool({"ark", "scp"} & set(head.replace(" ", "").split(",")))


@dataclass(frozen=True, slots=True)
class Interpolating:
    """Interpolates a lattice with that of the same key."""

    alpha: float

    def __call__(self, lattice: Lattice, others: Sequence[Lattice | None]) -> Lattice:
        """Interpolate two lattices."""
        from ninja.graph import interp

        (other,) = others
        assert other is not None
        return interp(lattice, other, self.alpha)


@click.command()
@joins_archives("The interpolated lattices", others="SECOND")
@click.option("--alpha", type=float, default=0.5, show_default=True, help="Factor of the first's costs, from 0 to 1.")
def interp(joined: Joined, output_file: str, alpha: float, resume: bool) -> None:
    """Interpolate the costs of two archives of lattices.

    Word sequences that both lattices of a key have stay, at --alpha of the first's costs and 1 - alpha of the second's.
    Alignments are the first's.

    \b
    Example:
      ninja interp a.ark b.ark --alpha 0.3 -o both.ark
    """
    if not 0.0 <= alpha <= 1.0:
        raise OptionError(f"alpha is {alpha}, but must be from 0 to 1")
    joined.write(output_file, Interpolating(alpha), resume=resume, needed=True)


@dataclass(frozen=True, slots=True)
class Subtracting:
    """Takes a lattice's transcript out of it."""

    transcripts: Mapping[str, npt.NDArray[np.int32]]

    def __call__(self, lattice: Lattice) -> Lattice:
        """Take the transcript out."""
        from ninja.graph import difference

        return difference(lattice, self.transcripts[lattice.key])


class Transcribed:
    """The stage that leaves out, and lists, lattices without a transcript."""

    def __init__(self, transcripts: Mapping[str, npt.NDArray[np.int32]], lacking: list[str], seen: set[str]) -> None:
        self._subtract = Each(Subtracting(transcripts))
        self._transcripts = transcripts
        self._lacking = lacking
        self._seen = seen

    def __call__(self, lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
        """Yield what is left of each lattice that has a transcript."""

        def known() -> Iterator[tuple[str, Lattice]]:
            for key, lattice in lattices:
                if key in self._transcripts:
                    self._seen.add(key)
                    yield key, lattice
                else:
                    self._lacking.append(key)

        return self._subtract(known(), log)


@click.command()
@lattice_output("What is left of the lattices")
@click.option("--ref", metavar="FILE", required=True, help="Transcripts: a key and its words on each line.")
@click.option("--strict", is_flag=True, help="Exit with 1 if a lattice has no transcript, or a transcript no lattice.")
@resume
@reads_lattices_alone
def difference(reading: Reading, output_file: str, ref: str, strict: bool, resume: bool) -> None:
    """Remove transcripts from lattices.

    Paths that say just what the transcript says go, all others stay as they are. A lattice that holds nothing else
    fails. Without --words, transcripts hold word ids.

    \b
    Example:
      ninja difference den.ark --ref train.tra -o den_mce.ark
    """
    from ninja.evaluate import read_text
    from ninja.evaluate.references import number

    check_places([output_file], [ref], reading)
    transcripts = number(read_text(ref), reading.table()).ids
    lacking: list[str] = []
    seen: set[str] = set()
    reading.write(output_file, Transcribed(transcripts, lacking, seen), resume=resume)
    unused = [key for key in transcripts if key not in seen] if not reading.log.skipped else []
    for what, keys in (("lattices without a transcript", lacking), ("transcripts without a lattice", unused)):
        if not keys:
            continue
        reading.say(f"{len(keys)} {what}: {named(keys)}")
        if strict:
            reading.log.failures.extend(LatticeError(f"one of the {what}", key=key) for key in keys)
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")
