"""``ninja merge`` and ``ninja split``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import click

from ninja.cli import writing
from ninja.cli.convert import unchanged
from ninja.cli.options import Destination, command, lattice_output
from ninja.cli.places import check_places, is_stdin
from ninja.cli.run import results, write
from ninja.cli.source import Source, reads_lattices, reads_lattices_alone
from ninja.errors import LatticeError, OptionError
from ninja.files.pipes import gives_bytes_once
from ninja.formats.kaldi.tables import read_speakers
from ninja.io.selection import part_of
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each

MOST_SPEAKERS = 500  # archives open at once


@command
@click.option("--strict", is_flag=True, help="Exit with 1 if a key occurs more than once.")
@lattice_output()
@reads_lattices
def merge(source: Source, destination: Destination, strict: bool) -> None:
    """Merge archives: one after the other, each key once.

    Of lattices with the same key the first one is kept and the key is named.

    \b
    Example:
      ninja merge lat.1.gz lat.2.gz more/ -o lat.ark.gz
    """
    check_places([destination.output_file], source.places)
    count: Counter[str] = Counter()

    def first_ones() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in source.lattices():
            count[key] += 1
            if count[key] == 1:
                yield key, lattice

    write(Each(unchanged), source, destination, first_ones())
    twice = [key for key, times in count.items() if times > 1]
    source.console.say_keys(twice, "keys occur more than once, and the first lattice of each was kept")
    message = f"{source.console.log.lattices} lattices, {source.console.seconds:.1f} s"
    source.console.close(message, failed=strict and bool(twice))


@command
@click.option("--nj", type=click.IntRange(1), help="Number of parts.")
@click.option("--utt2spk", metavar="FILE", help="Speaker of each key: those of one speaker stay together.")
@lattice_output("Output for each part; JOB in its name is the part's number, SPK its speaker", resume=False)
@reads_lattices_alone
def split(source: Source, destination: Destination, nj: int | None, utt2spk: str | None) -> None:
    """Split lattices into several archives.

    With --nj, each part is a stretch of SOURCE, which is read twice. With --utt2spk alone, each speaker gets an
    archive of its own.

    \b
    Examples:
      ninja split lat.ark.gz --nj 4 -o lat.JOB.ark.gz
      ninja split lat.ark.gz --utt2spk utt2spk -o lat.SPK.ark.gz
    """
    if nj is None and utt2spk is None:
        raise click.UsageError("say how: with --nj, --utt2spk, or both")
    mark = "SPK" if nj is None else "JOB"
    if mark not in destination.output_file:
        raise click.UsageError(f"-o {destination.output_file} lacks {mark}, by which the parts are told apart")
    speaker_of = None if utt2spk is None else read_speakers(utt2spk)
    writing.find_names(source, destination)  # before anything is read; what is wrong, each part says by itself
    if nj is None:
        assert speaker_of is not None
        part: dict[str, str] = speaker_of
    else:
        if any(is_stdin(name) or gives_bytes_once(name) for name in source.places):
            raise OptionError("what is split into --nj parts is read twice; give a file rather than - or a pipe")
        # Both readings pass over the same faulty lattices; they are reported in the second.
        found = (key for key, _ in source.read(source.places, lambda _: None))
        placed = [key for key in found if speaker_of is None or key in speaker_of]
        part = {key: str(number + 1) for key, number in part_of(placed, nj, speaker_of).items()}
    for name in set(part.values()):
        if not name or "/" in name or name.startswith("."):
            raise OptionError(f"the speaker {name!r} cannot name a file")

    def known(lattice: Lattice) -> Lattice:
        if lattice.key not in part:
            raise LatticeError(f"{utt2spk} names no speaker", key=lattice.key)
        return lattice

    with ExitStack() as stack:
        parts: dict[str, writing.LatticeOutput] = {}
        for key, lattice in results(Each(known), source):
            name = part[key]
            if name not in parts:
                if len(parts) == MOST_SPEAKERS:
                    raise OptionError(f"more than {len(parts)} archives cannot be written at once; use --nj as well")
                one = replace(destination, output_file=destination.output_file.replace(mark, name))
                check_places([one.output_file], [utt2spk, *source.places])
                parts[name] = stack.enter_context(writing.opened(one, source))
            if not parts[name].take(lattice):
                source.console.log.lattices -= 1
    source.console.close_counting(f"lattices in {len(parts)} archives")
