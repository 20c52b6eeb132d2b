"""Options and help of the commands."""

import dataclasses
import inspect
import pydoc
import re
from dataclasses import fields

import click
import pytest
from command_page import command_page

from ninja import graph
from ninja.cli.commands import COMMANDS
from ninja.cli.main import group
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.options import ContextOptions
from ninja.decoding.ctc_options import CtcOptions
from ninja.lm.ngram.kneser_ney import NgramOptions
from ninja.rescoring import RescoreOptions
from ninja.train.recipe import TrainOptions

CONTEXT = click.Context(group)


def options(name):
    return {each.name: each for each in group.get_command(CONTEXT, name).params}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_line_of_help_an_example_and_described_options(name):
    command = group.get_command(CONTEXT, name)
    assert command.help.splitlines()[0] == COMMANDS[name].help
    assert f"ninja {name}" in command.help.partition("Example")[2]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} --{option.name} is not described"


@pytest.mark.parametrize(("name", "chosen"), [("rescore", RescoreOptions), ("train", TrainOptions)])
def test_options_and_defaults_are_the_fields_of_the_dataclass(name, chosen):
    offered = options(name)
    for field in dataclasses.fields(chosen):
        assert offered[field.name].default == field.default or field.default is None, field.name
        assert offered[field.name].opts == [f"--{field.name.replace('_', '-')}"]


FUNCTIONS = {
    "prune": graph.prune,
    "best": graph.best_path,
    "nbest": graph.nbest,
    "posteriors": graph.posteriors,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_are_named_as_the_functions_arguments(name):
    offered = options(name)
    arguments = dict(inspect.signature(FUNCTIONS[name]).parameters)
    for each in fields(arguments.pop("scales").default):
        option = offered[each.name if each.name == "word_penalty" else f"{each.name}_scale"]
        assert option.default == each.default
    for argument in arguments.values():
        if argument.name in ("lattice", "lattices", "return_arc_map", "forms"):  # forms are those of --normalizer
            continue
        option = offered[argument.name]
        assert argument.default is inspect.Parameter.empty or option.default == argument.default


def test_the_page_of_commands_has_every_command():
    assert set(re.findall(r"^## ninja (.*)$", command_page(), re.MULTILINE)) >= COMMANDS.keys()


def test_our_short_options_are_none_of_the_build_tools_at_top_level():
    from ninja._launch import BUILD_OPTIONS

    assert not {name for option in group.params for name in option.opts} & set(BUILD_OPTIONS)


@pytest.mark.parametrize("command", [[], *(name.split() for name in COMMANDS)], ids=" ".join)
def test_a_short_option_asks_for_help_too(ninja, command):
    code, printed, _ = ninja(*command, "-h")
    assert (code, printed) == (0, ninja(*command, "--help")[1])


@pytest.mark.parametrize(
    "options", [RescoreOptions, TrainOptions, ContextOptions, CtcOptions, NgramOptions, AugmentOptions]
)
def test_help_of_an_options_class_explains_its_fields(options):
    text = pydoc.plain(pydoc.render_doc(options))
    described = [field for field in dataclasses.fields(options) if field.metadata]
    assert described
    for field in described:
        assert f"{field.name}: {field.metadata['help']}" in text
