"""``--config``: a TOML file of option values; options on the command line override it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from ninja.cli.files import InputFile, OutputFile
from ninja.errors import OptionError
from ninja.files import toml
from ninja.files.output import text_output
from ninja.files.place import names_url

Command = Callable[..., Any]
# Options that a file may not set, like outputs: they run commands, overwrite files or use other machines.
COMMAND_LINE_ONLY = {"allow_pipes", "ray", "resume", "shard"}


def config_of(names: Collection[str] | None, text: str) -> Callable[[Command], Command]:
    """Add ``--config`` for some options, or for all; others in the file belong to another command."""
    return click.option(
        "--config",
        type=InputFile(),
        is_eager=True,
        callback=functools.partial(_load, only=names),
        help=text,
    )


def write_config(path: str, values: Mapping[str, Any], comments: list[str]) -> None:
    """Write option values, named with underscores, to a TOML file that begins with comments."""
    with text_output(path) as output:
        output.write(toml.text(values, comments))


def _load(
    context: click.Context, parameter: click.Parameter, path: str | None, *, only: Collection[str] | None
) -> str | None:
    if path is None:
        return None
    options = {option.name: option for option in context.command.params}
    values = {}
    table = toml.read(path)
    if only is not None and not table.keys() & set(only):
        raise OptionError(f"{path} has none of the options {', '.join(only)}")
    for name, value in table.items():
        if only is not None and name not in only:
            continue
        option = options.get(name.replace("-", "_"))
        if not isinstance(option, click.Option) or option is parameter:
            raise OptionError(f"{path}: `ninja {context.info_name}` has no option {name!r}")
        if isinstance(option.type, OutputFile) or option.name in COMMAND_LINE_ONLY:
            raise OptionError(f"{path}: {name} is allowed on the command line only; give {option.opts[0]} there")
        if any(isinstance(item, str) and names_url(item) for item in (value if isinstance(value, list) else [value])):
            raise OptionError(f"{path}: {name} is {value!r}, but URLs are allowed on the command line only")
        if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
            raise OptionError(f"{path}: {name} is {value!r}, but takes one value")
        assert option.name is not None
        values[option.name] = [value] if option.multiple and not isinstance(value, list) else value
    context.default_map = values
    return path


config = config_of(None, "Read options from FILE, as `ninja tune` writes it; the command line has precedence.")
