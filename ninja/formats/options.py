"""Parse the name of a format with options: ``slf``, ``slf:frame_shift=0.016,graph=l+r``."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ninja.errors import OptionError

Options = TypeVar("Options")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NONE = "none"


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:OPTION=VALUE,OPTION=VALUE`` into the name and a dictionary of values."""
    name, _, rest = text.partition(":")
    values: dict[str, str] = {}
    for item in rest.split(",") if rest else ():
        option, equals, value = item.partition("=")
        option = option.strip().replace("-", "_")
        if not equals or not option:
            raise OptionError(f"{text!r}: expected OPTION=VALUE after the colon, found {item!r}")
        if option in values:
            raise OptionError(f"{text!r} gives {option} twice")
        values[option] = value.strip()
    return name.strip(), values


def fill(
    options: Callable[..., Options] | None, values: Mapping[str, str], name: str, **defaults: Any
) -> Options | None:
    """Make an options dataclass (None: no options) from the texts of its fields.

    Items of lists are joined by ``+``; ``none`` is None. `defaults` that are no fields of the dataclass are ignored.
    """
    if options is None:
        if values:
            raise OptionError(f"{name} has no option {next(iter(values))!r}; it has none")
        return None
    fields = {field.name for field in dataclasses.fields(typing.cast(Any, options))}
    kinds = typing.get_type_hints(options) if values else {}  # slower than reading a small lattice
    arguments = {field: value for field, value in defaults.items() if field in fields}
    for option, text in values.items():
        if option not in fields:
            known = ", ".join(sorted(fields)) or "none"
            raise OptionError(f"{name} has no option {option!r}; there is: {known}")
        try:
            arguments[option] = _value(text, kinds[option])
        except ValueError as error:
            raise OptionError(f"{name}: {option}={text} is not {_describe(kinds[option])}") from error
    return options(**arguments)


def _value(text: str, kind: Any) -> Any:
    """Convert a text to a type."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if text.lower() == _NONE and type(None) in parts:
            return None
        return _value(text, next(part for part in parts if part is not type(None)))
    if origin is typing.Literal:
        if text not in parts:
            raise ValueError(text)
        return text
    if origin in (tuple, frozenset):
        return origin(_value(item, parts[0]) for item in text.split("+") if item)
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise ValueError(text)
        return _TRUTH[text.lower()]
    value = kind(text)
    if kind is int and abs(value) >= 1 << 31:
        raise ValueError(text)
    return value


def _describe(kind: Any) -> str:
    """Describe the values of an option."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_NONE if part is type(None) else _describe(part) for part in parts)
    if origin is typing.Literal:
        return "one of " + ", ".join(parts)
    if origin in (tuple, frozenset):
        return "a list joined by +"
    return {int: "an integer", float: "a number", bool: "true or false"}.get(kind, "text")
