"""Files of lattices, written in one call."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ninja


def write_all(target: str | os.PathLike[str], items: Iterable[Any], **options: Any) -> None:
    """Write lattices, lists or networks to a target of ``ninja.write``."""
    with ninja.write(target, **options) as output:
        for item in items:
            output.write(item)
