"""``ninja doctor`` and ``ninja version``: what is installed here."""

from __future__ import annotations

from itertools import chain

import click

from ninja.doctor import examine, examine_deeply
from ninja.libraries import installed_version

MARKS = {True: "ok ", False: "BAD", None: "-  "}


@click.command  # of click alone: it runs where numpy and other libraries are missing
@click.option("--deep", is_flag=True, help="Compute golden cases with this build, in a few seconds.")
@click.pass_context
def doctor(context: click.Context, deep: bool) -> None:
    """Check the installation.

    Shows versions, compiled modules, devices, the shipped model, and whether another package named ninja (the build
    tool, django-ninja) has overwritten files of this one. Libraries that only some commands need are listed with what
    needs them. With --deep, best paths, posteriors, rescoring and other results on small lattices are computed by the
    compiled modules and compared with plain Python's. The exit code is 1 when something is wrong, not when such a
    library is missing.

    \b
    Example:
      ninja doctor --deep
    """
    findings = []
    for finding in chain(examine(), examine_deeply() if deep else ()):
        findings.append(finding)
        click.echo(f"{MARKS[finding.good]}  {finding.subject:14} {finding.text}")
    context.exit(1 if any(finding.good is False for finding in findings) else 0)


@click.command  # of click alone: it runs where numpy and other libraries are missing
def version() -> None:
    """Print the version.

    \b
    Example:
      ninja version
    """
    click.echo(f"ninja-asr {installed_version()}")
