"""Write one output per input file, either in a folder or with the number of the input file in the output's name."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from ninja.errors import LatticeError, NinjaError, OptionError, VocabularyError
from ninja.files.output import part_of, reported, target
from ninja.files.stream import is_remote, names_job, with_number
from ninja.formats.format import KALDI, by_extension
from ninja.io.earlier_attempt import refuse_other_scales
from ninja.io.inputs import Inputs, Output
from ninja.io.sources import SourceFile
from ninja.pipeline.originals import format_of_file

_NUMBER = r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])"


class WriteOne(Protocol):
    """Function that processes inputs and writes all their results to one output."""

    def __call__(self, inputs: Inputs, output: Output, *, may_be_empty: bool) -> None:
        """Write the results; raise `LatticeError` if there are none, unless an empty output is allowed."""


def write_each(output: Output, inputs: Inputs, write: WriteOne, *, may_be_empty: bool) -> None:
    """Write the results for each input file to a separate output.

    If all lattices in a file fail, no output is written for this file; the other outputs are still written.

    Args:
        output: Output for all input files: a folder, or a name that contains ``JOB``.
        inputs: Inputs of the run.
        write: Function that processes the lattices in one input file and writes the results to its output.
        may_be_empty: Do not raise an error if the inputs contain no lattices.

    Raises:
        LatticeError: There are no results.
    """
    outputs = outputs_of(output, inputs)
    if len(outputs) == 1:
        write(outputs[0][1], outputs[0][0], may_be_empty=may_be_empty)
        return
    for file_output, _ in outputs:
        if file_output.resume and file_output.chosen is not None:  # checked before any output is written
            refuse_other_scales(target(file_output.name).archive, file_output.chosen)
    log = inputs.log
    before = log.counts
    for number, (file_output, part) in enumerate(outputs):
        log.output = number
        try:
            write(part, file_output, may_be_empty=True)
        except (LatticeError, VocabularyError) as error:
            if error.key is not None or log.on_error is None:
                raise
            error.path = error.path or file_output.name
            log.fail(error)
    log.output = 0
    if log.counts == before and not may_be_empty:
        raise LatticeError(f"{', '.join(inputs.places)}: found no lattices")


def outputs_of(output: Output, inputs: Inputs) -> list[tuple[Output, Inputs]]:
    """Pair each input file with its output; return ``(output, inputs)`` for each file.

    ``JOB`` in the name of the output is replaced with the number in the name of each input file. If the output is a
    folder, each file in it takes the name of its input file, and its format too unless the output specifies one.

    Raises:
        OptionError: An input has no name or no number in its name, two inputs have the same output, the folder does not
            exist, an output is also an input, or the format of an input cannot be written.
    """
    pattern = output.name
    by_job = names_job(pattern)
    inputs_of: dict[str, str] = {}  # output file → input
    pairs: list[tuple[Output, Inputs]] = []
    for name, file, shape in _input_files(inputs):
        path, to = file.path, output.to
        if by_job:
            output_path = _with_number(pattern, path, shape)
        else:
            base, to = _with_extension(file, output)
            output_path = os.path.join(pattern, base)
        files = target(output_path)
        for file_path in filter(None, (files.archive, files.script)):
            if file_path in inputs_of:
                sources = f"{inputs_of[file_path]} and {path}"
                raise OptionError(f"{file_path}: {sources} would both be written to this file; process them separately")
            inputs_of[file_path] = path
        pairs.append((replace(output, name=output_path, to=to), inputs.part(name, file)))
    folder = os.path.dirname(target(pattern).archive) if by_job else pattern
    if by_job and not os.path.isdir(folder or ".") and not is_remote(pattern):
        raise OptionError(f"{pattern}: the folder {folder} does not exist; create it first")
    if (guard := output.guard) is not None:
        for path in inputs_of:
            guard.write(path)
            guard.write(part_of(path))
    return pairs


@contextmanager
def output_folder(output: Output) -> Iterator[None]:
    """Create a folder for multiple outputs on entering a ``with`` block, and remove it on exit if it is empty.

    Raises:
        OutputError: The folder cannot be created.
    """
    folder = output.name
    if names_job(folder) or os.path.isdir(folder) or is_remote(folder):
        yield
        return
    with reported(folder, "created"):
        os.makedirs(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _input_files(inputs: Inputs) -> Iterator[tuple[str, SourceFile, re.Pattern[str]]]:
    """Yield ``(source name, file, pattern for the number in the file name)`` for each input file."""
    for name in inputs.places:
        before, job, after = os.path.basename(name).partition("JOB")
        shape = re.compile(f"(?<=^{re.escape(before)})[0-9]+(?={re.escape(after)}$)" if job else _NUMBER)
        sources = inputs.sources.of(name)
        for file in sources:
            if file.is_pipe:
                raise OptionError(f"{file.name} has no file name to use for an output; specify a single file with -o")
            if file.kind == "folder":
                members = file.lattice_files
            elif file.kind == "list":
                members = _listed_files(file, inputs)
            else:
                yield name if len(sources) == 1 else file.path, file, shape
                continue
            yield from ((member.path, member, shape) for member in members)


def _listed_files(parent: SourceFile, inputs: Inputs) -> list[SourceFile]:
    """Return the readable files in a file list; add errors for unreadable files to the failures of the run."""
    files, failures = parent.listed
    readable = []
    for file in files:
        try:
            file.inspect()
        except NinjaError as error:
            failures.append(error)
        else:
            readable.append(file)
    for failure in failures:
        inputs.log.fail(failure)
    return readable


def _with_number(pattern: str, path: str, shape: re.Pattern[str]) -> str:
    """Replace ``JOB`` in the name of an output with the number in the name of an input file.

    Args:
        pattern: Name of the output, which contains ``JOB``.
        path: Path of the input file.
        shape: Pattern that matches the number in the name of the input file; the last match is used.
    """
    numbers = shape.findall(os.path.basename(path))
    if not numbers:
        raise OptionError(f"{path} has no number that could replace JOB in {pattern}; specify a folder with -o instead")
    return with_number(pattern, numbers[-1])


def _with_extension(file: SourceFile, output: Output) -> tuple[str, str | None]:
    """Return ``(name, format)`` for an output in a folder.

    The output has the name of the input file. If the name has the extension of another format, the extension is
    replaced with the extension of the output format. If the name has no known extension, the extension of the output
    format is appended, except for Kaldi archives.
    """
    path = file.path
    name = os.path.basename(path)
    formats = by_extension(name)
    form, to = output.resolved.format, output.to
    if to is None and (input_format := format_of_file(file)) is not None and input_format.name not in KALDI:
        if input_format.write is not None and (input_format.write.rewrites_files or input_format.write.restores):
            return name, input_format.name
        if input_format.write is None or input_format.write.files == "named":
            raise OptionError(f"{path}: {input_format.name} cannot be written as one file per input; use --to")
        form, to = input_format, input_format.name
    if not form.extensions or form in formats or (form.name in KALDI and not formats and not name.endswith(".scp")):
        return name, to
    stem = name.removesuffix(".gz").removesuffix(".scp")
    ending = next((end for candidate in formats for end in candidate.extensions if stem.lower().endswith(end)), "")
    return stem[: len(stem) - len(ending)] + form.extensions[0], to
