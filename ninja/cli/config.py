"""The option ``--config``, which reads option values from a TOML file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import click

from ninja.cli.command import Command, InputFile, OutputFile
from ninja.errors import OptionError
from ninja.files.names import names_url
from ninja.files.text import read_toml

# Like outputs, these options cannot be set in an options file, because they run commands, overwrite files or use
# other machines.
COMMAND_LINE_ONLY = {"allow_pipes", "ray", "resume", "shard"}


def config_of(names: Collection[str] | None, text: str) -> Callable[[Command], Command]:
    """Add ``--config``, which reads option values from a TOML file.

    Args:
        names: Options to read from the file; other options in the file are ignored. With None, all options are read,
            and an option that the command does not have is an error.
        text: Help text of the option.
    """
    return click.option("--config", type=_OptionsFile(names), is_eager=True, help=text)


class _OptionsFile(InputFile):
    """Parameter type for a TOML file of options; its values become the defaults of the command.

    Args:
        names: See `config_of`.
    """

    def __init__(self, names: Collection[str] | None) -> None:
        super().__init__()
        self._names = names

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Read the options in the file, and return its name unchanged."""
        path = super().convert(value, parameter, context)
        assert context is not None
        context.default_map = _values(path, context.command, self._names)
        return path


def _values(path: str, command: click.Command, only: Collection[str] | None) -> dict[str, Any]:
    """Read and check the values in an options file; see `config_of`."""
    options = {option.name: option for option in command.params}
    values: dict[str, Any] = {}
    table: dict[str, Any] = {}
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
        if not isinstance(option, click.Option) or isinstance(option.type, _OptionsFile):
            raise OptionError(f"{path}: `ninja {command.name}` has no option {name!r}")
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
    return values


def _kinds(option: click.Option) -> tuple[tuple[type, ...], str]:
    """Return ``(types, description)`` of the TOML values, besides strings, that an option accepts."""
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
