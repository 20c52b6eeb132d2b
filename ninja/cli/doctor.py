"""``ninja doctor`` and ``ninja version``: what is installed here."""

from __future__ import annotations

import click

from ninja.doctor import examine, installed_version


@click.command  # of click alone: it runs where numpy and other libraries are missing
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check the installation.

    Shows versions, compiled modules, devices, the shipped model, and whether another package named ninja (the build
    tool, django-ninja) has overwritten files of this one. The exit code is 1 when something is wrong.

    \b
    Example:
      ninja doctor
    """
    good = True
    for finding in examine():
        good &= finding.good
        click.echo(f"{'ok ' if finding.good else 'BAD'}  {finding.subject:14} {finding.text}")
    context.exit(0 if good else 1)


@click.command  # of click alone: it runs where numpy and other libraries are missing
def version() -> None:
    """Print the version.

    \b
    Example:
      ninja version
    """
    click.echo(f"ninja-asr {installed_version()}")
