"""Check an installation: versions, compiled modules, devices, the shipped model, and the command ``ninja``."""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ninja.build_tool import find_build_tool
from ninja.libraries import DISTRIBUTION, LIBRARIES, installed_version

ALWAYS_NEEDED = ("numpy", "click", "isal", "lazy_loader")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check."""

    subject: str
    good: bool | None  # None if an optional library is missing
    text: str  # the result, followed by the remedy if there is a problem


@dataclass(frozen=True, slots=True)
class Claim:
    """A file that several installed distributions contain."""

    path: str
    owners: tuple[str, ...]  # distributions that record the file
    present: str | None  # distribution to which the installed file belongs, if known


def examine() -> Iterator[Finding]:
    """Yield the results of all checks."""
    yield Finding("python", True, f"{platform.python_version()} on {platform.platform()}")
    version = installed_version()
    home = Path(__file__).parent
    if version == "0+unknown":
        yield Finding(DISTRIBUTION, True, f"imported from {home}, not installed")
    else:
        yield Finding(DISTRIBUTION, True, f"{version} in {home}")
    for stub in sorted(home.glob("_[a-z]*.pyi")):
        yield _attempt(f"ninja.{stub.stem}", partial(_compiled, stub.stem), f"reinstall {DISTRIBUTION}")
    for name in ALWAYS_NEEDED:
        yield _attempt(name, partial(importlib.metadata.version, name), f"pip install {name}")
    yield _attempt("model", _model, f"specify --rnnlm, or reinstall {DISTRIBUTION}")
    yield _build_tool()
    yield from _names()
    distributions = importlib.metadata.packages_distributions()
    for name in LIBRARIES:
        yield _library(name, distributions.get(name, []))


def examine_deeply() -> Iterator[Finding]:
    """Compare the compiled modules' results on small lattices with the results of plain Python code."""
    try:
        from ninja import self_test
    except Exception as error:  # a broken library may raise anything when it is imported
        yield Finding("golden cases", False, f"{type(error).__name__}: {error}; reinstall {DISTRIBUTION}")
        return
    for name, wrong in self_test.run():
        advice = f"do not use this build: reinstall {DISTRIBUTION}, or build it with the default compiler options"
        yield Finding(name, wrong is None, "same results as plain Python" if wrong is None else f"{wrong}; {advice}")


def claims() -> list[Claim]:
    """Return the files that this distribution and another one both contain, with different content, sorted by path.

    All installed distributions that contain a module ``ninja`` are compared. pip overwrites such files silently, and
    uninstalling either distribution deletes them.
    """
    names = {DISTRIBUTION, *importlib.metadata.packages_distributions().get("ninja", ())}
    owners: dict[str, dict[str, str]] = defaultdict(dict)  # path → distribution → sha256 in its record
    for name in sorted(names):
        try:
            files = importlib.metadata.distribution(name).files or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.hash is not None and file.hash.mode == "sha256":
                owners[os.path.normpath(str(file.locate()))][name] = file.hash.value
    shared = []
    for path, digests in sorted(owners.items()):
        if len(digests) > 1 and len(set(digests.values())) > 1:
            digest = _digest(path)
            present = next((name for name, recorded in digests.items() if recorded == digest), None)
            shared.append(Claim(path, tuple(digests), present))
    return shared


def _digest(path: str) -> str | None:
    """Return the SHA-256 of a file in the format of installation records; None if the file cannot be read."""
    try:
        content = Path(path).read_bytes()
    except OSError:
        return None
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _names() -> Iterator[Finding]:
    shared = claims()
    if not shared:
        yield Finding("names", True, "no other package contains the same files")
        return
    others = sorted({owner for claim in shared for owner in claim.owners if owner != DISTRIBUTION})
    for claim in shared:
        origin = (
            f"the installed file is from {claim.present}" if claim.present else "the installed file is from neither"
        )
        yield Finding("names", False, f"both {' and '.join(claim.owners)} contain {claim.path}; {origin}")
    yield Finding(
        "names",
        False,
        f"{', '.join(others)} and {DISTRIBUTION} overwrite each other's files; run `pip uninstall {' '.join(others)}`, "
        f"then `pip install --force-reinstall --no-deps {DISTRIBUTION}`. Install the build tool with the system's "
        "package manager (ninja-build) or in another environment ($NINJA_BUILD_TOOL). Until then, use the command "
        "ninja-asr",
    )


def _attempt(subject: str, look: Callable[[], str], remedy: str) -> Finding:
    try:
        return Finding(subject, True, look())
    except Exception as error:  # a broken library may raise anything when it is imported
        return Finding(subject, False, f"{type(error).__name__}: {error}; {remedy}")


def _compiled(name: str) -> str:
    return str(importlib.import_module(f"ninja.{name}").__file__)


def _library(name: str, distributions: Sequence[str]) -> Finding:
    purpose, install = LIBRARIES[name]
    if importlib.util.find_spec(name) is None:
        return Finding(name, None, f"not installed, needed for {purpose}; {install}")
    versions = ", ".join(sorted(f"{library} {importlib.metadata.version(library)}" for library in set(distributions)))
    # Import torch and pywrapfst, because they may be installed but broken.
    look = {"torch": _torch, "pywrapfst": _openfst}.get(name, lambda: versions)
    return _attempt(name, look, f"needed for {purpose}; {install}")


def _openfst() -> str:
    importlib.import_module("pywrapfst")
    return f"pynini {importlib.metadata.version('pynini')}"


def _torch() -> str:
    import torch

    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return f"{torch.__version__}; cpu ({torch.get_num_threads()} threads)" + "".join(f", {name}" for name in devices)


def _model() -> str:
    from ninja.models import ENGLISH

    return f"{ENGLISH} ({ENGLISH.stat().st_size / 1e6:.1f} MB)"


def _build_tool() -> Finding:
    tool = find_build_tool()
    text = (
        f"{tool}; calls of `ninja` that are meant for the build tool are forwarded"
        if tool
        else f"not found outside the environment of {sys.executable}"
    )
    return Finding("build tool", True, text)
