"""Write recogniser results in the format of the inputs, so that all fields of the input files are kept."""

from __future__ import annotations

import os
from dataclasses import replace

from ninja.errors import NinjaError
from ninja.formats.format import HEAD, Format, detect, reader
from ninja.io.inputs import Inputs, Output
from ninja.io.sources import SourceFile

LINES = ".jsonl"


def in_source_format(output: Output, inputs: Inputs) -> Output:
    """Return the output in the format of the inputs if they are recogniser results and the output has their extension.

    Otherwise, the output is returned unchanged. Formats of recogniser results keep all fields of the input files.
    Several files that each contain a single JSON document are not joined into one output.

    Args:
        output: An output other than a Kaldi archive, for which the user has not selected a format.
        inputs: Inputs of the run.
    """
    if output.is_stdout or output.is_per_file:
        return output
    form = output.resolved.format
    is_unmarked = form.mark is None  # other formats may use the same extension
    if not (is_unmarked or LINES in form.extensions) or not (files := plain_files(inputs)):
        return output
    from ninja.formats.nbest.json_lists import no_document

    try:
        format = reader(inputs.format).format if inputs.format is not None else format_of_file(files[0])
        head = files[0].inspect().head(HEAD)
        lines = head[: head.rfind(b"\n") + 1] if len(head) == HEAD else head
        has_lines = no_document(lines, encoding=inputs.encoding) is not None
    except NinjaError:  # the reader reports the error
        return output
    if format is None or format.write is None:
        return output
    name = output.resolved.target.archive.removesuffix(".gz").lower()
    source = files[0].path.removesuffix(".gz").lower()
    if is_unmarked:
        is_same = format.write.restores and os.path.splitext(name)[1] == os.path.splitext(source)[1]
        return replace(output, to=format.name) if is_same else output
    if not format.write.rewrites_files or (len(files) > 1 and not has_lines):
        return output
    if not name.endswith(format.extensions) or (not has_lines and name.endswith(LINES) and not source.endswith(LINES)):
        return output
    return replace(output, to=format.name)


def plain_files(inputs: Inputs) -> list[SourceFile]:
    """Return the files in the inputs, including files in folders and file lists."""
    files: list[SourceFile] = []
    for file in inputs.sources.resolvable_files:
        if file.kind == "folder":
            files += file.lattice_files
        else:
            files += file.members if file.kind in ("list", "scp") else [file]
    return files


def original_paths(inputs: Inputs, format: Format | None = None) -> tuple[str, ...]:
    """Return the paths of the input files that can be read again; in a shard, return only the files in the shard.

    Args:
        format: Return only files in this format; None returns all files.
    """
    if inputs.tables is not None and format is None:
        return tuple(table.place.path for table in inputs.tables)
    files = [file for file in plain_files(inputs) if not file.is_pipe]
    if format is not None:
        by_user = None if inputs.format is None else reader(inputs.format).format
        files = [file for file in files if (by_user or format_of_file(file)) is format]
    paths = tuple(file.path for file in files)
    if inputs.tables is None:
        return paths
    return tuple(table.place.path for table in inputs.tables if table.place.path in paths)


def format_of_file(file: SourceFile) -> Format | None:
    """Return the format of an input file, detected from its content; None if it is unknown or cannot be read."""
    try:
        return detect(file.inspect().head(HEAD), file.path)
    except NinjaError:
        return None
