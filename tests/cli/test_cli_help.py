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


def options_of(name):
    return {option.name: option for option in group.get_command(CONTEXT, name).params}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_summary_an_example_and_option_help(name):
    command = group.get_command(CONTEXT, name)
    assert command.help.splitlines()[0] == COMMANDS[name].help
    assert f"ninja {name}" in command.help.partition("Example")[2]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} --{option.name} has no help"


@pytest.mark.parametrize(("flag", "metavar"), [("--normalizer", "TEXT"), ("--classes", "FILE")])
def test_an_option_has_the_same_metavar_in_all_commands(flag, metavar):
    options = [option for name in COMMANDS for option in group.get_command(CONTEXT, name).params if flag in option.opts]
    assert {option.make_metavar(CONTEXT) for option in options} == {metavar}


@pytest.mark.parametrize(("name", "options"), [("rescore", RescoreOptions), ("train", TrainOptions)])
def test_options_and_defaults_are_the_fields_of_the_dataclass(name, options):
    command_options = options_of(name)
    for field in dataclasses.fields(options):
        assert command_options[field.name].default == field.default or field.default is None, field.name
        assert command_options[field.name].opts == [f"--{field.name.replace('_', '-')}"]


FUNCTIONS = {
    "prune": graph.prune,
    "best": graph.best_path,
    "nbest": graph.nbest,
    "posteriors": graph.posteriors,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_have_the_names_of_function_arguments(name):
    command_options = options_of(name)
    arguments = dict(inspect.signature(FUNCTIONS[name]).parameters)
    for field in fields(arguments.pop("scales").default):
        option = command_options[field.name if field.name == "word_penalty" else f"{field.name}_scale"]
        assert option.default == field.default
    for argument in arguments.values():
        if argument.name in ("lattice", "lattices", "return_arc_map", "forms"):  # forms come from --normalizer
            continue
        option = command_options[argument.name]
        assert argument.default is inspect.Parameter.empty or option.default == argument.default


def test_the_command_page_has_every_command():
    assert set(re.findall(r"^## ninja (.*)$", command_page(), re.MULTILINE)) >= COMMANDS.keys()


def test_global_short_options_differ_from_those_of_the_build_tool():
    from ninja._launch import BUILD_OPTIONS

    assert not {name for option in group.params for name in option.opts} & set(BUILD_OPTIONS)


@pytest.mark.parametrize("command", [[], *(name.split() for name in COMMANDS)], ids=" ".join)
def test_the_short_option_h_prints_help(ninja, command):
    code, printed, _ = ninja(*command, "-h")
    assert (code, printed) == (0, ninja(*command, "--help")[1])


@pytest.mark.parametrize(
    "options", [RescoreOptions, TrainOptions, ContextOptions, CtcOptions, NgramOptions, AugmentOptions]
)
def test_help_of_an_options_class_explains_its_fields(options):
    text = pydoc.plain(pydoc.render_doc(options))
    documented = [field for field in dataclasses.fields(options) if field.metadata]
    assert documented
    for field in documented:
        assert f"{field.name}: {field.metadata['help']}" in text
