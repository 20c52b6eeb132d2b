"""Check that a resumed output has the same scales as the earlier attempt."""

from __future__ import annotations

import os

from ninja.errors import OptionError
from ninja.files.output import part_of
from ninja.files.stream import is_file
from ninja.io.sources import ChosenScales, read_scales, scales_path


def refuse_other_scales(place: str, chosen: ChosenScales | None) -> None:
    """Raise `OptionError` if an output cannot be resumed because different scales were chosen for its lattices.

    Args:
        place: Path of a complete or partial output; an output without a scale file is accepted.
        chosen: Scales chosen for the lattices to be added, or None.
    """
    part = part_of(place)
    if not is_file(place) and not (os.path.isfile(part) and os.path.getsize(part)):
        return
    path = scales_path(place)
    existing = next(filter(is_file, (part_of(path), path)), None)  # an unfinished attempt is the most recent one
    if existing is None or (before := read_scales(existing)) == chosen:
        return
    then, now = before.values(), {} if chosen is None else chosen.values()
    differ = [name for name in {**then, **now} if _value(then, name) != _value(now, name)]
    old = " and ".join(f"{name} {_value(then, name)}" for name in differ)
    new = " and ".join(_value(now, name) for name in differ) if now else "no scales"
    advice = "use the same options, or omit --resume (resume=) to start again"
    raise OptionError(f"{place}: an earlier attempt used {old}, but this attempt uses {new}; {advice}")


def _value(values: dict[str, float], name: str) -> str:
    value = values.get(name, 1.0 if name == "lm_scale" else None)
    return "none" if value is None else f"{value:.12g}"
