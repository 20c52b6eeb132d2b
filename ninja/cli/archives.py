"""``ninja copy``, ``copy-backoff``, ``merge`` and ``split``: which lattices stand in which archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import click

from ninja.cli import writing
from ninja.cli.kaldi.labels import unchanged
from ninja.cli.options import lattice_output, resume
from ninja.cli.places import check_places, check_stdin, is_stdin
from ninja.cli.reading import Reading, named, opened, reading_options, reads_lattices, reads_lattices_alone
from ninja.cli.switches import switch
from ninja.errors import LatticeError, OptionError
from ninja.lattice import Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Each, Keyed

MOST_SPEAKERS = 500  # archives open at once


@dataclass(slots=True)
class Selection(Reading):
    """A run over some of its lattices, that remembers the keys it has seen."""

    include: frozenset[str] | None = None  # None: all
    exclude: frozenset[str] = frozenset()
    once: bool = False  # leave out what comes again under the same key
    seen: dict[str, int] = field(default_factory=dict)  # lattices of each key

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Read the sources and pass on what is wanted."""
        for key, lattice in Reading.lattices(self):
            again = key in self.seen
            self.seen[key] = self.seen.get(key, 0) + 1
            wanted = self.include is None or key in self.include
            if wanted and key not in self.exclude and not (again and self.once):
                yield key, lattice


@click.command()
@lattice_output()
@switch("--write-compact", True, "Write Kaldi's CompactLattice, else its Lattice.")
@click.option("--include", metavar="FILE", help="Copy only keys that are the first field of a line here.")
@click.option("--exclude", metavar="FILE", help="Leave out keys that are the first field of a line here.")
@switch("--ignore-missing", False, "Exit with 0 even if no lattice was copied.")
@click.option("--strict", is_flag=True, help="Exit with 1 if SOURCE lacks a key of --include or --exclude.")
@resume
@reads_lattices
def copy(
    reading: Reading,
    output_file: str,
    write_compact: bool,
    include: str | None,
    exclude: str | None,
    ignore_missing: bool,
    strict: bool,
    resume: bool,
) -> None:
    """Copy lattices, all or those of some keys, to another archive or form.

    Listed keys that SOURCE lacks are named.

    \b
    Examples:
      ninja copy lat.ark.gz --include dev.keys -o dev.ark.gz
      ninja copy lat.ark.gz --write-compact=false -o ark,t:lat.txt
    """
    from ninja import graph
    from ninja.io.selection import read_keys

    if include is not None and exclude is not None:
        raise click.UsageError("--include cannot be used with --exclude")
    check_places([output_file], [include, exclude], reading)
    chosen = read_keys(include) if include is not None else None
    left_out = read_keys(exclude) if exclude is not None else []
    selection = reading.as_another(
        Selection,
        include=None if chosen is None else frozenset(chosen),
        exclude=frozenset(left_out),
        may_be_empty=ignore_missing,
    )
    stage = Each(graph.to_compact if write_compact else unchanged)
    selection.write(output_file, stage, resume=resume, kind="compact" if write_compact else "raw")
    unknown = [key for key in chosen or left_out if key not in selection.seen]
    say_keys(selection, unknown, f"keys of {include or exclude} are not in {' '.join(reading.source)}")
    count = selection.log.lattices
    nothing = count + selection.log.skipped == 0 and not ignore_missing
    _close(selection, f"{count} lattices copied, {selection.seconds:.1f} s", nothing or (strict and bool(unknown)))


@click.command()
@lattice_output()
@click.option("--strict", is_flag=True, help="Exit with 1 if a key occurs more than once.")
@resume
@reads_lattices
def merge(reading: Reading, output_file: str, strict: bool, resume: bool) -> None:
    """Merge archives: one after the other, each key once.

    Of lattices with the same key the first one is kept and the key is named.

    \b
    Example:
      ninja merge lat.1.gz lat.2.gz more/ -o lat.ark.gz
    """
    check_places([output_file], (), reading)
    selection = reading.as_another(Selection, once=True)
    selection.write(output_file, Each(unchanged), resume=resume)
    twice = [key for key, count in selection.seen.items() if count > 1]
    say_keys(selection, twice, "keys occur more than once, and the first lattice of each was kept")
    _close(selection, f"{selection.log.lattices} lattices, {selection.seconds:.1f} s", strict and bool(twice))


@click.command()
@click.argument("first")
@click.argument("second")
@lattice_output()
@reading_options()
def copy_backoff(first: str, second: str, output_file: str, **options: Any) -> None:
    """Copy lattices, those of a second archive where it has them.

    The keys are those of FIRST.

    \b
    Example:
      ninja copy-backoff complete.ark.gz better.ark.gz -o lat.ark.gz
    """
    reading, _ = opened((first,), options, beside=(second,))
    check_stdin([first, second])
    check_places([output_file], [second], reading)
    backed_off = 0

    def chosen(lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
        nonlocal backed_off
        for key, lattice in lattices:
            other = others.get(key)
            backed_off += other is None
            yield key, lattice if other is None else other

    with reading.lookup(second) as others:
        reading.write(output_file, chosen)
        left_over = list(others.rest())
    better = reading.log.lattices - backed_off
    reading.say(f"{backed_off} of the lattices are those of {first}, {better} those of {second}")
    say_keys(reading, left_over, f"keys of {second} are not in {first} and were left out")
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")


@click.command()
@lattice_output("Output for each part; JOB in its name is the part's number, SPK its speaker")
@click.option("--nj", type=click.IntRange(1), help="Number of parts.")
@click.option("--utt2spk", metavar="FILE", help="Speaker of each key: those of one speaker stay together.")
@reads_lattices_alone
def split(reading: Reading, output_file: str, nj: int | None, utt2spk: str | None) -> None:
    """Split lattices into several archives.

    With --nj, each part is a stretch of SOURCE, which is read twice. With --utt2spk alone, each speaker gets an
    archive of its own.

    \b
    Examples:
      ninja split lat.ark.gz --nj 4 -o lat.JOB.ark.gz
      ninja split lat.ark.gz --utt2spk utt2spk -o lat.SPK.ark.gz
    """
    from ninja.files.pipes import gives_bytes_once
    from ninja.formats.kaldi.tables import read_speakers
    from ninja.io.selection import part_of

    if nj is None and utt2spk is None:
        raise click.UsageError("say how: with --nj, --utt2spk, or both")
    mark = "SPK" if nj is None else "JOB"
    if mark not in output_file:
        raise click.UsageError(f"-o {output_file} lacks {mark}, by which the parts are told apart")
    speaker_of = None if utt2spk is None else read_speakers(utt2spk)
    writing.find_names(reading, output_file)  # before anything is read; what is wrong, each part says by itself
    if nj is None:
        assert speaker_of is not None
        part: dict[str, str] = speaker_of
    else:
        if any(is_stdin(name) or gives_bytes_once(name) for name in reading.source):
            raise OptionError("what is split into --nj parts is read twice; give a file rather than - or a pipe")
        # Both readings pass over the same faulty lattices; they are reported in the second.
        found = (key for key, _ in reading.read(reading.source, lambda _: None))
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
        parts: dict[str, writing.Taking] = {}
        for key, lattice in reading.results(Each(known)):
            name = part[key]
            if name not in parts:
                if len(parts) == MOST_SPEAKERS:
                    raise OptionError(f"more than {len(parts)} archives cannot be written at once; use --nj as well")
                check_places([output_file.replace(mark, name)], [utt2spk], reading)
                parts[name] = stack.enter_context(writing.opened(output_file.replace(mark, name), reading))
            if not parts[name].take(lattice):
                reading.log.lattices -= 1
    reading.close(f"{reading.log.lattices} lattices in {len(parts)} archives, {reading.seconds:.1f} s")


def say_keys(reading: Reading, keys: Sequence[str], what: str) -> None:
    """Name the first of some keys, and say how many there are."""
    if keys:
        reading.say(f"{len(keys)} {what}: {named(keys)}")


def _close(reading: Reading, message: str, failed: bool) -> None:
    """End a command that may have failed for more than its lattices."""
    if failed and not reading.log.failures:
        reading.say(message)
        click.get_current_context().exit(1)
    reading.close(message)
