"""``ninja equivalent``."""

from __future__ import annotations

from typing import Any

import click

from ninja import graph
from ninja.cli.options import command
from ninja.cli.places import check_stdin
from ninja.cli.source import Source, opened, reading_options
from ninja.io.batches import KALDI
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each


@command
@click.argument("first")
@click.argument("second")
@click.option("--delta", default=0.1, help="Largest difference of a path's cost.")
@click.option("--num-paths", type=click.IntRange(0), default=20, help="Best paths whose alignments are compared.")
@click.option("--max-error-proportion", type=click.FloatRange(0, 1), default=0.0, help="Share that may differ.")
@reading_options()
def equivalent(
    first: str, second: str, delta: float, num_paths: int, max_error_proportion: float, **options: Any
) -> None:
    """Test whether two archives hold equivalent lattices.

    Lattices of the same key are compared; the exit code is 1 if any differ. They are equivalent if they hold the same
    word sequences, and the best path of each costs the same, graph and acoustic costs together. Alignments are
    compared, too; but where one source is no Kaldi archive, only if both have any.

    \b
    Example:
      ninja equivalent before.ark.gz after.ark.gz --delta 0.001
    """
    check_stdin([first, second])
    source: Source = opened((first,), options, beside=(second,))["source"]
    console = source.console
    differing: list[str] = []
    missing: list[str] = []
    equal = count = unaligned = 0
    lenient = any(name not in (None, KALDI) for name in source.format_names())

    def compare(lattice: Lattice) -> None:
        nonlocal equal, count, unaligned
        count += 1
        other = others.get(lattice.key)
        if other is None:
            missing.append(lattice.key)
            return
        unaligned += lattice.has_labels != other.has_labels
        if _same(lattice, other, delta, num_paths, lenient=lenient):
            equal += 1
        else:
            differing.append(lattice.key)

    with source.lookup(second) as others:
        for _ in Each(compare)(source.lattices(), console.log):
            pass
        left_over = list(others.rest())
    console.say_keys(differing, "not equivalent")
    console.say_keys(missing, f"missing in {second}")
    console.say_keys(left_over, f"missing in {first}, which does not count")
    if unaligned and num_paths:
        said = "which were not compared" if lenient else "which are to be the same; --num-paths=0 leaves them out"
        console.say(f"{unaligned} lattices have alignments in one source only, {said}")
    console.say(f"{count} lattices, {equal} of them equivalent")
    bad = len(differing) + len(missing)
    console.close(failed=bad > max_error_proportion * count)


def _same(lattice: Lattice, other: Lattice, delta: float, num_paths: int, *, lenient: bool) -> bool:
    """Compare all word sequences, and the alignments of the best; where only one has any, it is lenient or not."""
    if not graph.equivalent(lattice, other, delta):
        return False
    if not num_paths or (lenient and lattice.has_labels != other.has_labels):
        return True
    found = {path.words.tobytes(): path.alignment for path in graph.nbest(other, num_paths)}
    return all(
        path.alignment.tolist() == found[path.words.tobytes()].tolist()
        for path in graph.nbest(lattice, num_paths)
        if path.words.tobytes() in found  # of sequences that cost the same either may be among the best
    )
