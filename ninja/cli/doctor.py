"""The commands ``ninja doctor`` and ``ninja version``."""

from __future__ import annotations

from itertools import chain

import click

from ninja.doctor import examine, examine_deeply
from ninja.libraries import installed_version

MARKS = {True: "ok ", False: "BAD", None: "-  "}


@click.command  # plain click, so that the command runs without numpy and other libraries
@click.option("--deep", is_flag=True, help="Also compare compiled modules with plain Python; takes a few seconds.")
@click.pass_context
def doctor(context: click.Context, deep: bool) -> None:
    """Check the installation.

    The output lists versions, compiled modules, devices, the shipped model, optional libraries and their purpose, and
    other packages named ninja (the build tool, django-ninja) that have overwritten files of this package. With --deep,
    the compiled modules also process small lattices, and their best paths, posteriors, rescored lattices and other
    results are compared with those of pure Python code. The exit code is 1 if a check fails; a missing optional
    library is not a failure.

    \b
    Example:
      ninja doctor --deep
    """
    findings = []
    for finding in chain(examine(), examine_deeply() if deep else ()):
        findings.append(finding)
        click.echo(f"{MARKS[finding.good]}  {finding.subject:14} {finding.text}")
    context.exit(1 if any(finding.good is False for finding in findings) else 0)


@click.command  # plain click, so that the command runs without numpy and other libraries
def version() -> None:
    """Print the version.

    \b
    Example:
      ninja version
    """
    click.echo(f"ninja-asr {installed_version()}")
