"""What a user may name as a target for lattices, and which format it is to have."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ninja.errors import OptionError
from ninja.formats import options
from ninja.io.sources import SPECIFIER
from ninja.io.sources import STDIN as STDOUT

_WRITE_OPTIONS = {"ark", "scp", "b", "t", "f", "nf", "p"}
_PACKER = re.compile(r"\|\s*gzip(?:\s+-c)?\s*>\s*([^\s$`\\;&|<>(){}!#~*?'\"]+)\s*")

KALDI = ("binary", "text")
EXTENSIONS: dict[str, tuple[str, ...]] = {  # of the files of each format; the first one is given to new files
    "binary": (".ark",),
    "text": (".txt",),
    "slf": (".slf", ".lat"),
    "sphinx": (".sphinx", ".lat"),
    "pfsg": (".pfsg",),
    "plf": (".plf",),
    "mesh": (".mesh",),
    "openfst": (".fst", ".fsa"),
    "fst-text": (".att", ".fst.txt", ".fsa"),
    "fst-ark": (),
    "k2": (".pt",),
    "native": (".arrow",),
    "json": (".jsonl", ".json"),
    "srilm": (".nbest",),
    "nemo": (".tsv",),
    "espnet": (),
    "nbest-kaldi": (),
}
_READ_ONLY = {  # endings of files that are read, but never written under that name
    ".ctm": "CTM is only read; write JSON lines (.jsonl), which hold words with times",
    ".stm": "STM is not written; write JSON lines (.jsonl), which hold words with times",
    ".columns": "lists in columns are only read; write them as JSON lines (.jsonl)",
    ".scp": "a script file goes with an archive; say ark,scp:FILE.ark,FILE.scp",
}
ALIASES = {  # other names of formats, for reading and writing
    "kaldi": "binary",
    "kaldi-text": "text",
    "htk": "slf",
    "att": "fst-text",
    "arrow": "native",
    "nbest": "json",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where lattices are to be written, and how."""

    archive: str  # file; "-" is the standard output
    script: str | None = None  # script file that says where in the archive each lattice lies
    text: bool = False
    packed: bool = False  # gzip


def target(name: str | os.PathLike[str]) -> Target:
    """Understand a target.

    Args:
        name: A path (``.gz`` packs it, ``.txt`` and ``.txt.gz`` are text), ``-``, or a Kaldi wspecifier: ``ark:…``,
            ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F``. A path-like object is a path, whatever its letters;
            it may be a folder.

    Raises:
        OptionError: None of these, or a combination that makes no sense.

    Source: Kaldi util/kaldi-table.cc (ClassifyWspecifier).
    """
    found = None if isinstance(name, os.PathLike) else SPECIFIER.fullmatch(name)
    if found is None:
        path = os.fspath(name)
        if path.startswith("|"):
            raise OptionError(f"{path!r}: commands are not run; write ark:| gzip -c > FILE or a file name")
        return _checked(Target(path, text=path.removesuffix(".gz").endswith(".txt"), packed=path.endswith(".gz")))
    options = [option for option in re.split("[, ]+", found[1]) if option]
    rest = found[2].strip()
    unknown = [option for option in options if option not in _WRITE_OPTIONS]
    if unknown:
        raise OptionError(f"wspecifier {name!r} has the unknown option {unknown[0]!r}")
    kinds = [option for option in options if option in ("ark", "scp")]
    text = "t" in options
    if kinds == ["ark"]:
        if rest.startswith("|"):
            packer = _PACKER.fullmatch(rest)
            if packer is None:
                raise OptionError(f"{name!r}: of commands to write to, only '| gzip -c > FILE' is served")
            return _checked(Target(packer[1], text=text, packed=True))
        return _checked(Target(rest or STDOUT, text=text, packed=rest.endswith(".gz")))
    if sorted(kinds) == ["ark", "scp"]:
        names = rest.split(",")
        if len(names) != 2:
            raise OptionError(f"wspecifier {name!r} must name two files, as in ark,scp:lat.ark,lat.scp")
        archive, script = names if kinds[0] == "ark" else reversed(names)
        return _checked(Target(archive.strip(), script.strip(), text, archive.strip().endswith(".gz")))
    raise OptionError(f"wspecifier {name!r} must say 'ark', or 'ark,scp' with two files")


def is_specifier(name: str | os.PathLike[str]) -> bool:
    """Tell whether a target is named in Kaldi's way, ``ark:…``."""
    return not isinstance(name, os.PathLike) and SPECIFIER.fullmatch(name) is not None


def format_of(name: str | os.PathLike[str], to: str | None = None) -> tuple[str, dict[str, str]]:
    """Return the format that a target is to have, and its options.

    Args:
        name: As for ``target``.
        to: ``FORMAT`` or ``FORMAT:OPTION=VALUE,…``; None: by the extension, Kaldi's binary where that says nothing.

    Raises:
        OptionError: There is no such format, the extension is that of two or of files that are only read, or the name
            says its form itself.
    """
    if to is None:
        return _by_extension(name), {}
    named, values = options.split(to)
    found = ALIASES.get(named, named)
    if found not in EXTENSIONS:
        known = ", ".join([*EXTENSIONS, *ALIASES])
        raise OptionError(f"there is no format {named!r} to write; there is: {known}")
    if is_specifier(name) and (found not in KALDI or target(name).text != (found == "text")):
        raise OptionError(f"{os.fspath(name)!r} says its form itself, so it cannot be {named!r}; give a file name")
    return found, values


def _by_extension(name: str | os.PathLike[str]) -> str:
    path = os.fspath(name)
    if is_specifier(name) or path == STDOUT:
        return "text" if target(name).text else "binary"
    base = os.path.basename(path.rstrip(os.sep)).removesuffix(".gz").lower()
    fitting = [(len(end), each) for each, ends in EXTENSIONS.items() for end in ends if base.endswith(end)]
    longest = [each for length, each in fitting if length == max(fitting)[0]]
    if len(longest) > 1:
        choices = " or ".join(f"to={each!r}" for each in longest)
        flags = ", ".join(f"--to {each}" for each in longest)
        raise OptionError(f"{path!r}: the extension is that of {' and '.join(longest)}; say {choices} ({flags})")
    if not longest:
        for end, what in _READ_ONLY.items():
            if base.endswith(end):
                raise OptionError(f"{path!r}: {what}, or name the format (--to)")
    return longest[0] if longest else "binary"


def _checked(chosen: Target) -> Target:
    if not chosen.archive:
        raise OptionError(f"the output {chosen.archive!r} is no file name")
    if chosen.script is not None:
        if chosen.packed or chosen.archive == STDOUT:
            raise OptionError(
                "a script file needs an archive that is a plain file, neither gzip nor the standard output"
            )
        if chosen.script in ("", STDOUT, chosen.archive):
            raise OptionError(f"the script file {chosen.script!r} is no file name of its own")
    return chosen
