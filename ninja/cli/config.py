"""``--config``: a file of option values, which those typed on the command line overrule.

The file is TOML, so that people can read, change and comment it; its keys are the names of the options.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from ninja.cli.options import text_output
from ninja.errors import FormatError, InputError, OptionError

Command = Callable[..., Any]


def config(command: Command) -> Command:
    """Add ``--config``."""
    return click.option(
        "--config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_load,
        help="Read options from FILE, as `ninja tune` writes it; the command line has precedence.",
    )(command)


def write_config(path: str, values: Mapping[str, Any], comments: list[str]) -> None:
    """Write options, by their names with underscores, in TOML, with comments above."""
    with text_output(path) as output:
        for line in comments:
            output.write(f"# {line}\n")
        for name, value in values.items():
            # JSON's strings, lists and truth values are TOML's, too.
            spelled = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
            output.write(f"{name} = {spelled}\n")


def _load(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    known = {each.name: each for each in context.command.params}
    values = {}
    for name, value in _read(path).items():
        option = known.get(name.replace("-", "_"))
        if not isinstance(option, click.Option) or option is parameter:
            raise OptionError(f"{path}: `ninja {context.info_name}` has no option {name!r}")
        if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
            raise OptionError(f"{path}: {name} is {value!r}, but takes one value")
        assert option.name is not None
        values[option.name] = [value] if option.multiple and not isinstance(value, list) else value
    context.default_map = values


def _read(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise InputError(error.strerror or str(error), path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"no TOML: {error}", path) from error
