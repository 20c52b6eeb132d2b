"""The page for Kaldi users lists every program, and all verbs and options in it exist."""

import re
from pathlib import Path

import click
import pytest

from ninja.cli.commands import COMMANDS
from ninja.cli.main import group

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "kaldi.md").read_text()
CONTEXT = click.Context(group)
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and line.count(" | ") == 2 and not line.startswith("| Kaldi")
]

# Programs of src/latbin in Kaldi f4007661 and in branches that are still used.
PROGRAMS = re.findall(
    r"[\w-]+",
    """
lattice-1best lattice-add-nnlmscore lattice-add-penalty lattice-add-trans-probs lattice-align-phones
lattice-align-words-general lattice-align-words-lexicon lattice-align-words lattice-arc-post lattice-arcgraph
lattice-best-path lattice-boost-ali lattice-combine lattice-compose-fsts lattice-compose lattice-confidence
lattice-copy-backoff lattice-copy lattice-depth-per-frame lattice-depth lattice-determinize-non-compact
lattice-determinize-phone-pruned-non-compact lattice-determinize-phone-pruned-parallel lattice-determinize-phone-pruned
lattice-determinize-pruned-non-compact lattice-determinize-pruned-parallel lattice-determinize-pruned
lattice-determinize lattice-difference lattice-equivalent lattice-expand-ngram-phone lattice-expand-ngram
lattice-expand lattice-interp lattice-limit-depth lattice-lmrescore-const-arpa-kaldi-rnnlm-pruned
lattice-lmrescore-const-arpa lattice-lmrescore-cuedrnnlm lattice-lmrescore-fasterlm-arpa
lattice-lmrescore-kaldi-rnnlm-adaptation lattice-lmrescore-kaldi-rnnlm-pruned lattice-lmrescore-kaldi-rnnlm
lattice-lmrescore-nnet3-rnnlm lattice-lmrescore-pruned lattice-lmrescore-rnnlm lattice-lmrescore lattice-mbr-decode
lattice-minimize lattice-nbest lattice-oracle lattice-path-cover lattice-project lattice-prune lattice-push
lattice-rescore-mapped lattice-reverse lattice-rmali lattice-rmnum lattice-scale lattice-to-ctm-conf lattice-to-fst
lattice-to-mpe-post lattice-to-nbest lattice-to-ngram-counts lattice-to-phone-lattice lattice-to-post
lattice-to-smbr-post lattice-topsort lattice-union lattice-word-align linear-to-nbest nbest-to-ctm nbest-to-lattice
nbest-to-linear nbest-to-prons string-to-lattice
""",
)


def options(verb):
    return {name for parameter in group.get_command(CONTEXT, verb).params for name in parameter.opts}


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_is_on_the_page(program):
    assert re.search(rf"(?<![\w-]){program}(?![\w-])", PAGE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_verb_and_option_of_a_row_exists(row):
    kaldi, ours, text = row
    verb = re.fullmatch(r"`ninja ([\w-]+)`", ours)
    assert verb or ours == "–", f"{kaldi}: {ours}"
    if verb:
        assert verb[1] in COMMANDS
    for piece in re.findall(r"`([^`]+)`", text):
        mention = re.match(r"ninja ([\w-]+)", piece)
        option_verb = mention[1] if mention else verb and verb[1]
        for option in re.findall(r"--[\w-]+|(?<!\S)-o\b", piece):
            assert option in options(option_verb or "version"), f"{kaldi}: {option_verb} has no {option}"


def test_every_command_on_the_kaldi_page_exists():
    for verb in re.findall(r"`ninja ([\w-]+)", PAGE):
        assert verb in COMMANDS, verb


def test_commands_are_named_like_kaldi_programs():
    ours = {row[0]: row[1] for row in ROWS}
    for program in PROGRAMS:
        verb = program.removeprefix("lattice-")
        if verb in COMMANDS and program in ours:
            assert ours[program] == f"`ninja {verb}`" or program == "lattice-nbest"
