"""Copies of nested dictionaries with one entry changed."""

from __future__ import annotations

from typing import Any


def change(content: dict[str, Any], *keys: str, to: Any) -> dict[str, Any]:
    """Return a copy with one entry replaced, or removed with `to` = None."""
    copy = dict(content)
    if len(keys) > 1:
        copy[keys[0]] = change(content[keys[0]], *keys[1:], to=to)
    elif to is None:
        del copy[keys[0]]
    else:
        copy[keys[0]] = to
    return copy
