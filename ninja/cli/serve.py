"""The command ``ninja serve``, which starts an HTTP server."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import click

from ninja.cli.command import NamedFile, keeps_defaults
from ninja.cli.config import config
from ninja.cli.context import OF_RESCORING, entities
from ninja.cli.main import current_console
from ninja.cli.models import NO_MODEL, WEIGHT_DEFAULTS, language_models, map_words
from ninja.cli.options import command, from_fields, reads, section
from ninja.cli.source import WORDS_HELP
from ninja.context.correction.options import CorrectOptions
from ninja.context.settings import Context
from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.models import ModelFiles
from ninja.serve.options import ServeOptions
from ninja.serve.scorer import Scorer
from ninja.serve.server import Listener, share_arena
from ninja.serve.server import serve as run_server

LIMITS = tuple(field.name for field in fields(ServeOptions))
ADDRESS = tuple(field.name for field in fields(Listener))
DEFAULTS = {
    **WEIGHT_DEFAULTS,
    "max_unknown": "1",
    "normalizer": "none if no words in --words end with punctuation, else basic",
}
# Options whose defaults depend on the type of the lattices.
OF_KINDS = ("lm_weight", "word_penalty", "acoustic_scale", "max_unknown")


@command
@config
@language_models
@map_words
@from_fields(RescoreOptions, skip=("map_words",), defaults=DEFAULTS)
@section(
    "Context",
    click.option(
        "--lists",
        multiple=True,
        metavar="NAME=FILE",
        help="File with one phrase per line, to which requests refer by NAME; may be given several times.",
    ),
)
@entities(required=False, skip=(*OF_RESCORING, "max_arcs"), points=True, of_requests=True)
@section("Corrections", from_fields(CorrectOptions, skip=("letters_only",)))
@section("Limits", from_fields(ServeOptions))
@section(
    "Server",
    reads("--words", f"{WORDS_HELP} It is required for lattices that contain word ids."),
    click.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 for all network interfaces."),
    click.option("--port", type=click.IntRange(0, 65535), default=8080, help="Port to listen on; 0 for any free port."),
    reads("--token-file", "File with a token that clients must send ('Authorization: Bearer TOKEN')."),
    reads("--tls-certificate", "Certificate chain in PEM format, for HTTPS.", kind=NamedFile()),
    reads("--tls-key", "Private key of the certificate in PEM format.", kind=NamedFile()),
)
def serve(
    models: ModelFiles,
    context: Context,
    lists: tuple[str, ...],
    threshold: float | None,
    words: str | None,
    **options: Any,
) -> None:
    """Rescore lattices and correct transcripts that other programs send over HTTP.

    The models are loaded once, and the lattices of concurrent requests are rescored in one batch. POST /v1/rescore
    accepts a lattice in any format that Ninja reads, or an n-best list in JSON, and returns the best hypotheses with
    times and confidences. POST /v1/correct corrects the names in a transcript, like `ninja correct`.
    WS /v1/stream rescores growing lattices. The page at / contains a form for lattices, /docs describes the endpoints,
    and /metrics exports metrics for Prometheus. After SIGTERM, the server answers the requests in progress and stops.
    The default weights for n-best lists without graph costs apply if none of --lm-weight, --word-penalty and --old-lm
    is specified. This command requires `pip install 'ninja-asr[serve]'`.

    \b
    Example:
      ninja serve --words words.txt --lists contacts=contacts.txt --port 8080
    """
    share_arena()
    limits = ServeOptions(**{name: options.pop(name) for name in LIMITS})
    listener = Listener(**{name: options.pop(name) for name in ADDRESS})
    rescoring = RescoreOptions(**options)
    if not models.models and models.old_lm is None:
        raise OptionError(f"--rnnlm {NO_MODEL} requires --old-lm; otherwise there is no model to rescore with")
    console = current_console()
    scorer = Scorer(
        models,
        rescoring,
        words=None if words is None else SymbolTable.read(words),
        context=replace(context, normalizer=rescoring.normalizer),
        lists=_named_files(lists),
        chosen=[name for name in OF_KINDS if not keeps_defaults([name])],
        correct_options=CorrectOptions(threshold),
        max_latency=limits.max_latency,
        max_waiting=limits.max_requests,
    )
    for note in scorer.report.notes:
        console.note(note)
    run_server(scorer, listener, limits, on_start=lambda address: console.say(f"listening on {address}"))


def _named_files(lists: tuple[str, ...]) -> dict[str, str]:
    """Return a map from the names in ``--lists`` to files.

    Raises:
        OptionError: A value is not NAME=FILE, or a name occurs twice.
    """
    files: dict[str, str] = {}
    for text in lists:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise OptionError(f"--lists is {text!r}, but must be NAME=FILE")
        if name in files:
            raise OptionError(f"--lists {name} is given twice; specify each name once")
        files[name] = path
    return files
