"""The commands ``ninja copy``, ``ninja copy-backoff`` and ``ninja equivalent``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ninja import graph
from ninja.cli.archives import unchanged
from ninja.cli.command import Lattices, refuse_without
from ninja.cli.main import current_console
from ninja.cli.options import command, lattice_output, reads, switch
from ninja.cli.source import build_inputs, reading_options, reads_lattices, write
from ninja.errors import Log, NinjaError, counted
from ninja.formats.kaldi.archive import KALDI
from ninja.io.inputs import Inputs
from ninja.io.selection import read_keys
from ninja.lattice import Kind, Lattice
from ninja.pipeline import Output
from ninja.pipeline.execution import OnBatches
from ninja.pipeline.stages import Pairs, call_safely


@command
@switch("--write-compact", True, "Write Kaldi's CompactLattice instead of Lattice.")
@reads("--include", "Copy only lattices whose keys are in the first column of FILE.")
@reads("--exclude", "Do not copy lattices whose keys are in the first column of FILE.")
@switch("--ignore-missing", False, "Exit with code 0 even if no lattice is copied.")
@click.option(
    "--strict", is_flag=True, help="Exit with code 1 if a key of --include or --exclude is missing from SOURCE."
)
@lattice_output()
@reads_lattices
def copy(
    inputs: Inputs,
    destination: Output,
    write_compact: bool,
    include: str | None,
    exclude: str | None,
    ignore_missing: bool,
    strict: bool,
) -> None:
    """Copy all lattices, or lattices with selected keys, to another archive or format.

    Keys of --include and --exclude that are missing from SOURCE are listed on stderr.

    \b
    Examples:
      ninja copy lat.ark.gz --include dev.keys -o dev.ark.gz
      ninja copy lat.ark.gz --write-compact=false -o ark,t:lat.txt
    """
    if include is not None and exclude is not None:
        raise click.UsageError("--include cannot be used with --exclude")
    if include is None and exclude is None:
        refuse_without("--include or --exclude", ["strict"])
    key_file = include or exclude
    keys = dict.fromkeys([] if key_file is None else read_keys(key_file), False)  # key → whether SOURCE has it

    def select(part: Inputs) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in part.lattices():
            if key in keys:
                keys[key] = True
            if (key in keys) == (include is not None):
                yield key, lattice

    stage = OnBatches(graph.to_compact if write_compact else unchanged)
    kind: Kind = "compact" if write_compact else "raw"
    read = None if key_file is None else select
    write(stage, inputs, destination, read=read, kind=kind, may_be_empty=ignore_missing)
    unknown = [key for key, is_found in keys.items() if not is_found]
    console, log = current_console(), inputs.log
    places = " ".join(inputs.places)
    console.say_keys(unknown, f"keys of {key_file} are not in {places}", f"key of {key_file} is not in {places}")
    is_empty = log.lattices + log.skipped == 0 and not ignore_missing
    message = f"{counted(log.lattices, 'lattice')} copied, {console.seconds:.1f} s"
    console.close(message, failed=is_empty or (strict and bool(unknown)))


@command
@click.argument("first", type=Lattices())
@click.argument("second", type=Lattices())
@lattice_output(resume=False)
@reading_options()
def copy_backoff(first: str, second: str, **options: Any) -> None:
    """Copy an archive, replacing lattices whose keys also occur in a second archive.

    The output contains all keys of FIRST. A lattice in FIRST is replaced if SECOND contains a lattice with the same
    key.

    \b
    Example:
      ninja copy-backoff complete.ark.gz better.ark.gz -o lat.ark.gz
    """
    arguments = build_inputs((first,), options)
    inputs, destination = arguments["inputs"], arguments["destination"]
    backed_off = 0

    def prefer_second(lattices: Pairs, log: Log) -> Iterator[tuple[str, Lattice]]:
        nonlocal backed_off
        for key, lattice in lattices:
            other = others.get(key)
            backed_off += other is None
            yield key, lattice if other is None else other

    with inputs.lookup(second) as others:
        write(prefer_second, inputs, destination)
        unused = list(others.rest())
    better = inputs.log.lattices - backed_off
    current_console().say(f"{counted(backed_off, 'lattice is', 'lattices are')} from {first}, {better} from {second}")
    current_console().say_keys(
        unused,
        f"keys of {second} are not in {first} and were skipped",
        f"key of {second} is not in {first} and was skipped",
    )
    current_console().close_counting()


@command
@click.argument("first", type=Lattices())
@click.argument("second", type=Lattices())
@click.option(
    "--delta", default=0.1, help="Maximum difference between the costs of a word sequence in the two lattices."
)
@click.option(
    "--num-paths", type=click.IntRange(0), default=20, help="Number of best paths whose alignments are compared."
)
@click.option(
    "--max-error-proportion",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Maximum proportion of lattices that may differ.",
)
@reading_options()
def equivalent(
    first: str, second: str, delta: float, num_paths: int, max_error_proportion: float, **options: Any
) -> None:
    """Test whether two archives contain equivalent lattices.

    Two lattices with the same key are equivalent if they have the same word sequences, and the best path of each
    sequence has the same total cost in both. Alignments are compared as well. If either source is not a Kaldi archive,
    alignments are ignored when one lattice of a pair has no alignment. Keys of lattices that differ or are missing are
    listed on stderr; the exit code is 1 if too many lattices differ or are missing from SECOND.

    \b
    Example:
      ninja equivalent before.ark.gz after.ark.gz --delta 0.001
    """
    inputs: Inputs = build_inputs((first,), options)["inputs"]
    console = current_console()
    differing: list[str] = []
    missing: list[str] = []
    equal = count = unaligned = 0

    def is_foreign() -> bool:
        return bool(inputs.formats.keys() - {KALDI})

    def compare(lattice: Lattice) -> None:
        nonlocal equal, count, unaligned
        count += 1
        other = others.get(lattice.key)
        if other is None:
            missing.append(lattice.key)
            return
        unaligned += lattice.has_labels != other.has_labels
        if _same(lattice, other, delta, num_paths, lenient=is_foreign()):
            equal += 1
        else:
            differing.append(lattice.key)

    with inputs.lookup(second) as others:
        for _, lattice in inputs.lattices():
            if isinstance(error := call_safely(compare, lattice), NinjaError):
                inputs.log.fail(error)
        unused = list(others.rest())
    console.say_keys(differing, "not equivalent")
    console.say_keys(missing, f"missing from {second}")
    console.say_keys(unused, f"missing from {first}, which does not count as a difference")
    if unaligned and num_paths:
        effect = "are ignored" if is_foreign() else "count as differences; --num-paths 0 ignores alignments"
        console.say(
            f"{counted(unaligned, 'lattice has', 'lattices have')} alignments in only one source, which {effect}"
        )
    console.say(f"{counted(count, 'lattice')}, {equal} of them equivalent")
    console.close(failed=len(differing) + len(missing) > max_error_proportion * count)


def _same(lattice: Lattice, other: Lattice, delta: float, num_paths: int, *, lenient: bool) -> bool:
    """Return whether two lattices have equal word sequences and costs, and best paths with equal alignments.

    Args:
        lenient: Ignore alignments if only one of the lattices has alignments.
    """
    if not graph.equivalent(lattice, other, delta):
        return False
    if not num_paths or (lenient and lattice.has_labels != other.has_labels):
        return True
    alignments = {path.words.tobytes(): path.alignment for path in graph.nbest(other, num_paths)}
    return all(
        path.alignment.tolist() == alignments[path.words.tobytes()].tolist()
        for path in graph.nbest(lattice, num_paths)
        if path.words.tobytes() in alignments  # a sequence may be missing if other sequences have the same cost
    )
