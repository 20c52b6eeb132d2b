"""Messages in the words of the command line: names of options, and what was meant by one that there is not."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

# Options of Kaldi's, SRILM's and HTK's programs, and of the same meaning ours.
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
# Programs of others, and the command that does the same.
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


def in_options(message: str, command: click.Command) -> str:
    """Return a message with the options of a command as they are typed, not as arguments of Python."""
    message = re.sub(r" \(\w+=(?:'\w+')?\)", "", message)  # how Python spells it
    for each in command.params:
        if not isinstance(each, click.Option) or not each.name:
            continue
        name = re.escape(each.name)
        option = max(each.opts, key=len)
        message = re.sub(rf"^{name}(?= is | has | and | cannot | must )", option, message)
        if "_" in each.name:
            message = re.sub(rf"(?<![\w.=:/'\"-]){name}(?![\w./'\"(-]|=\w)", option, message)
    return re.sub(r"(--[\w-]+)((?: [A-Z]+)?) \(\1\)", r"\1\2", message)


def meant(name: str, known: Iterable[str], others: dict[str, str]) -> list[str]:
    """Return what may be meant by a name that there is not: what others call so, or else the likeliest of ours."""
    from difflib import get_close_matches

    known = set(known)
    if others.get(name) in known:
        return [others[name]]
    return get_close_matches(name.removeprefix("lattice-"), sorted(known), 3, 0.7)
