"""Names of outputs: files, folders, the standard output and Kaldi's wspecifiers."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ninja.errors import OptionError
from ninja.files.place import SPECIFIER
from ninja.files.place import STDIN as STDOUT

_OPTIONS = {"ark", "scp", "b", "t", "f", "nf", "p"}
_PACKER = re.compile(r"\|\s*gzip(?:\s+-c)?\s*>\s*([^\s$`\\;&|<>(){}!#~*?'\"]+)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """Place and form of an output."""

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
    unknown = [option for option in options if option not in _OPTIONS]
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
