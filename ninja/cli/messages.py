"""Option names in error messages, and suggestions for unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

# Options of Kaldi, SRILM and HTK programs, and the equivalent options of ninja.
ALIASES = {
    "--acwt": "--acoustic-scale",
    "--inv-acwt": "--inv-acoustic-scale",
    "--lmwt": "--inv-acoustic-scale",
    "--lm-weight": "--lm-scale",
    "--weight": "--lm-weight",
    "--wip": "--word-penalty",
    "--word-ins-penalty": "--word-penalty",
    "--word-insertion-penalty": "--word-penalty",
    "--word-symbol-table": "--words",
    "--words-file": "--words",
    "--symtab": "--words",
    "--vocab": "--words",
    "--n-best": "--n",
    "--nbest": "--n",
    "--num-best": "--n",
    "--lattice-beam": "--beam",
    "--prune-beam": "--beam",
    "--nj": "--jobs",
    "--num-jobs": "--jobs",
    "--output": "--output-file",
    "--out": "--output-file",
    "--format": "--from",
    "--input-format": "--from",
    "--output-format": "--to",
    "--lm": "--rnnlm",
    "--model": "--rnnlm",
    "--rnnlm": "--lm",
    "--gpu": "--device",
    "--cuda": "--device",
}
# Programs of other toolkits, and the equivalent command.
PROGRAMS = {
    "lattice-to-post": "to-post",
    "lattice-tool": "convert",
    "nbest-lattice": "mbr-decode",
    "wer": "score",
    "sclite": "score",
    "ppl": "lm",
    "perplexity": "lm",
    "ngram": "lm",
    "decode": "best",
    "1-best": "best",
    "one-best": "best",
    "best-path": "best",
    "ctm": "to-ctm-conf",
    "help": "--help",
}


def with_option_names(message: str, command: click.Command) -> str:
    """Replace the names of Python arguments in a message by the corresponding options of a command."""
    message = re.sub(r" \(\w+=(?:'\w+')?\)", "", message)  # the hint for Python callers
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or not parameter.name:
            continue
        name = re.escape(parameter.name)
        option = max(parameter.opts, key=len)
        message = re.sub(rf"^{name}(?= is | has | and | cannot | must )", option, message)
        if "_" in parameter.name:
            message = re.sub(rf"(?<![\w.=:/'\"-]){name}(?![\w./'\"(-]|=\w)", option, message)
    return re.sub(r"(--[\w-]+)((?: [A-Z]+)?) \(\1\)", r"\1\2", message)


def suggestions(name: str, known: Iterable[str], aliases: dict[str, str]) -> list[str]:
    """Suggest corrections for an unknown name: its equivalent in another toolkit, or else similar names."""
    from difflib import get_close_matches

    known = set(known)
    if aliases.get(name) in known:
        return [aliases[name]]
    return get_close_matches(name.removeprefix("lattice-"), sorted(known), 3, 0.7)
