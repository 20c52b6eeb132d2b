"""``--config``: a file of option values, which those typed on the command line overrule.

The file is TOML, so that people can read, change and comment it; its keys are the names of the options.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from ninja.cli.files import InputFile, OutputFile
from ninja.errors import OptionError
from ninja.files import toml
from ninja.files.output import text_output
from ninja.files.remote import names_url

Command = Callable[..., Any]
# With outputs, what a file of options may not decide: commands that run, files written over, machines that are asked.
TYPED = {"allow_pipes", "ray", "resume", "shard"}


def config(command: Command) -> Command:
    """Add ``--config``."""
    return _option("Read options from FILE, as `ninja tune` writes it; the command line has precedence.", None)(command)


def config_of(names: Collection[str], text: str) -> Callable[[Command], Command]:
    """Add ``--config`` for some options; others in the file are those of the command that they were chosen for."""
    return _option(text, names)


def _option(text: str, only: Collection[str] | None) -> Callable[[Command], Command]:
    return click.option(
        "--config",
        type=InputFile(),
        is_eager=True,
        callback=functools.partial(_load, only=only),
        help=text,
    )


def write_config(path: str, values: Mapping[str, Any], comments: list[str]) -> None:
    """Write options, by their names with underscores, in TOML, with comments above."""
    with text_output(path) as output:
        output.write(toml.text(values, comments))


def _load(
    context: click.Context, parameter: click.Parameter, path: str | None, *, only: Collection[str] | None
) -> str | None:
    if path is None:
        return None
    known = {each.name: each for each in context.command.params}
    values = {}
    found = toml.read(path)
    if only is not None and not found.keys() & set(only):
        raise OptionError(f"{path} holds none of {', '.join(only)}")
    for name, value in found.items():
        if only is not None and name not in only:
            continue
        option = known.get(name.replace("-", "_"))
        if not isinstance(option, click.Option) or option is parameter:
            raise OptionError(f"{path}: `ninja {context.info_name}` has no option {name!r}")
        if isinstance(option.type, OutputFile) or option.name in TYPED:
            raise OptionError(f"{path}: {name} is taken from the command line alone; type {option.opts[0]} there")
        if any(isinstance(each, str) and names_url(each) for each in (value if isinstance(value, list) else [value])):
            raise OptionError(f"{path}: {name} is {value!r}, but URLs are taken from the command line alone")
        if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
            raise OptionError(f"{path}: {name} is {value!r}, but takes one value")
        assert option.name is not None
        values[option.name] = [value] if option.multiple and not isinstance(value, list) else value
    context.default_map = values
    return path
