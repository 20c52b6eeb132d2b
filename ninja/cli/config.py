"""The option ``--config``, which reads option values from a TOML file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

import click

from ninja.cli.command import Command, InputFile, OutputFile
from ninja.errors import OptionError
from ninja.files.names import names_url
from ninja.files.text import read_toml

# Like outputs, these options cannot be set in an options file, as they run commands, overwrite files or use other
# machines.
COMMAND_LINE_ONLY = {"allow_pipes", "endpoint_cache", "ray", "resume", "shard"}


def config_of(names: Collection[str] | None, text: str) -> Callable[[Command], Command]:
    """Add ``--config``, which reads option values from a TOML file.

    Args:
        names: Options to read from the file; other options in the file are ignored. With None, all options are read,
            and an option that the command does not have is an error.
        text: Help text of the option.
    """
    return click.option(
        "--config",
        type=InputFile(),
        is_eager=True,
        callback=functools.partial(_load, only=names),
        help=text,
    )


def _load(
    context: click.Context, parameter: click.Parameter, path: str | None, *, only: Collection[str] | None
) -> str | None:
    if path is None:
        return None
    options = {option.name: option for option in context.command.params}
    values = {}
    table = {}
    for name, value in read_toml(path).items():
        if (python_name := name.replace("-", "_")) in table:
            raise OptionError(f"{path}: {python_name} is specified twice, once with hyphens; specify it once")
        table[python_name] = value
    if only is not None and not table.keys() & set(only):
        raise OptionError(f"{path}: expected at least one of the options {', '.join(only)}, found none")
    for name, value in table.items():
        if only is not None and name not in only:
            continue
        option = options.get(name)
        if not isinstance(option, click.Option) or option is parameter:
            raise OptionError(f"{path}: `ninja {context.info_name}` has no option {name!r}")
        if isinstance(option.type, OutputFile) or option.name in COMMAND_LINE_ONLY:
            raise OptionError(f"{path}: {name} cannot be set in this file; pass {option.opts[0]} on the command line")
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, str) and names_url(item) for item in items):
            raise OptionError(f"{path}: {name} is {value!r}, but URLs are allowed only on the command line")
        if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
            raise OptionError(f"{path}: {name} is {value!r}, but must be a single value")
        kinds, description = _kinds(option)
        for item in items:
            if type(item) not in (*kinds, str):
                raise OptionError(f"{path}: {name} is {value!r}, but must be {description}")
            if isinstance(item, str) and "\0" in item:
                raise OptionError(f"{path}: {name} is {value!r}, which contains a null character; remove it")
        assert option.name is not None
        values[option.name] = items if option.multiple else value
    context.default_map = values
    return path


def _kinds(option: click.Option) -> tuple[tuple[type, ...], str]:
    """Return the types of an option's values in a TOML file, besides strings, and their description for messages."""
    if isinstance(option.type, click.types.BoolParamType):
        return (bool,), "true or false"
    if isinstance(option.type, click.types.IntParamType):
        return (int,), "an integer"
    if isinstance(option.type, click.types.FloatParamType):
        return (int, float), "a number"
    if isinstance(option.type, InputFile | click.Choice | click.types.StringParamType):
        return (), "a string"
    return (int, float), "a string or a number"


config = config_of(
    None, "Read options from a TOML file like those written by `ninja tune`; command-line options take precedence."
)
