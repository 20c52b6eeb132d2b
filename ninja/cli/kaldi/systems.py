"""Several systems' lattices of the same utterances, read as one: what consensus decoding calls system combination."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import click

from ninja.cli.places import check_stdin
from ninja.cli.reading import Reading, named
from ninja.errors import LatticeError, NinjaError, OptionError
from ninja.lattice import Lattice


@dataclass(frozen=True, slots=True)
class Scales:
    """The scales under which paths are compared."""

    acoustic_scale: float = 1.0
    lm_scale: float = 1.0
    word_penalty: float = 0.0

    def apply(self, lattice: Lattice) -> Lattice:
        """Return the lattice with scaled costs."""
        from ninja.graph import add_word_penalty, scale

        scaled = scale(lattice, self.lm_scale, self.acoustic_scale)
        return add_word_penalty(scaled, self.word_penalty) if self.word_penalty else scaled


@dataclass(slots=True)
class Systems(Reading):
    """A run over the lattices of one source, each combined with those of the same key in others."""

    others: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    scales: Scales = Scales()
    strict: bool = False
    missing: list[str] = field(default_factory=list)  # keys that another source lacks, once for each such source

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Read all sources, and combine what belongs together; scales are in the result."""
        with ExitStack() as stack:
            lookups = [stack.enter_context(self.lookup(source)) for source in self.others]
            for key, lattice in Reading.lattices(self):
                partners = [lookup.get(key) for lookup in lookups]
                self.missing += [key for partner in partners if partner is None]
                try:
                    combined = self._combined([lattice, *partners])
                except NinjaError as error:
                    error.key = error.key or key
                    self.log.fail(error)
                    continue
                yield key, combined

    def _combined(self, lattices: list[Lattice | None]) -> Lattice:
        from ninja.graph import combine

        return combine([lattice and self.scales.apply(lattice) for lattice in lattices], self.weights)

    def close(self, message: str | None = None) -> None:
        """Name the keys that a source lacks, and end the command."""
        keys = list(dict.fromkeys(self.missing))
        if keys:
            self.say(f"{len(keys)} keys are not in every archive and went without: {named(keys)}")
            if self.strict:
                self.log.failures.extend(LatticeError("not in every archive", key=key) for key in keys)
        Reading.close(self, message)


def combines_systems(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of system combination to a command that takes a ``Reading`` and ``Scales`` for each lattice.

    With ``--with``, the lattices read are combined, and their scales are 1.
    """

    @click.option("--acoustic-scale", type=float, default=1.0, show_default=True, help="Factor of acoustic costs.")
    @click.option(
        "--inv-acoustic-scale", type=float, default=1.0, show_default=True, help="Its inverse, given instead."
    )
    @click.option("--lm-scale", type=float, default=1.0, show_default=True, help="Factor of graph costs.")
    @click.option("--word-penalty", type=float, default=0.0, show_default=True, help="Cost added for each word.")
    @click.option(
        "--with",
        "others",
        multiple=True,
        metavar="SOURCE",
        help="Lattices of another system to combine; may be given again.",
    )
    @click.option(
        "--lat-weights",
        metavar="W:W...",
        help="Weight of SOURCE and of each source of --with.  [default: all the same]",
    )
    @click.option("--strict", is_flag=True, help="End with exit code 1 if a source of --with lacks a key of SOURCE.")
    @functools.wraps(command)
    def combining(
        reading: Reading,
        acoustic_scale: float,
        inv_acoustic_scale: float,
        lm_scale: float,
        word_penalty: float,
        others: tuple[str, ...],
        lat_weights: str | None,
        strict: bool,
        **options: Any,
    ) -> None:
        from ninja.graph.combine import check_weights
        from ninja.graph.scale import check_scales

        if inv_acoustic_scale != 1.0:
            if acoustic_scale != 1.0:
                raise click.UsageError("--acoustic-scale cannot be used with --inv-acoustic-scale")
            if inv_acoustic_scale == 0.0:
                raise OptionError("--inv-acoustic-scale is 0, but nothing has this inverse")
            acoustic_scale = 1.0 / inv_acoustic_scale
        check_scales(acoustic_scale, lm_scale, word_penalty)
        scales = Scales(acoustic_scale, lm_scale, word_penalty)
        if not others:
            if lat_weights is not None:
                raise click.UsageError("--lat-weights needs --with: there is one system only")
            command(reading, scales=scales, **options)
            return
        check_stdin([*reading.source, *others])
        systems = reading.as_another(
            Systems,
            beside=others,
            others=others,
            weights=check_weights(_weights(lat_weights), 1 + len(others)),
            scales=scales,
            strict=strict,
        )
        command(systems, scales=Scales(), **options)

    return combining


def _weights(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(weight) for weight in text.split(":")]
    except ValueError:
        raise OptionError(f"--lat-weights is {text!r}, but must be numbers between colons, as in 0.6:0.4") from None
