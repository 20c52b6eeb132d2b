"""Self-contained HTML pages, with styles, scripts and data in one file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ninja.libraries import needed_for
from ninja.show.drawing import Drawing

STYLES = ("base.css", "viewer.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
SCRIPTS = ("vendor/cytoscape.min.js", "pairs.js", "viewer.js")


def lattice_page(drawing: Drawing) -> str:
    """Return an HTML page that shows a lattice."""
    lattice = drawing.lattice
    return render(
        "lattice.html",
        STYLES,
        (*SCRIPTS, "lattice.js"),
        drawing.as_dict(),
        title=f"{lattice.key}: lattice",
        key=lattice.key,
        subtitle=f"{lattice.num_arcs:,} arcs, {lattice.num_states:,} states",
    )


def correction_page(changes: Sequence[Mapping[str, Any]], num_utterances: int) -> str:
    """Return an HTML page on which each correction can be accepted or rejected.

    The page saves the decisions as lists of changes in JSON:
    ``{"accepted": [...], "rejected": [...], "undecided": [...]}``.

    Args:
        changes: Records of the changes; see ``ninja.context.correction.report``.
        num_utterances: Total number of utterances, including utterances without corrections.
    """
    return render(
        "corrections.html",
        ("base.css", "corrections.css"),
        ("corrections.js",),
        {"changes": list(changes)},
        title="Corrections",
        count=len(changes),
        utterances=num_utterances,
        corrected=len({change["utt"] for change in changes}),
    )


def render(
    template: str, styles: tuple[str, ...], scripts: tuple[str, ...], data: dict[str, Any], **values: Any
) -> str:
    """Render a template into a self-contained page.

    The template escapes text from lattices and transcripts, and the data is in a block that is not executed. The
    content security policy allows no scripts except `scripts`, and no requests.

    Args:
        template: File name in ``templates``.
        styles: Names of style sheets, as passed to ``asset``.
        scripts: Names of scripts, as passed to ``asset``.
        data: JSON values for the scripts.
        values: Values of the template's variables.
    """
    compiled = _template(template)
    from markupsafe import Markup  # installed with jinja2

    code = [asset(name) for name in scripts]
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in code
    )
    page: str = compiled.render(
        policy=f"{POLICY}; script-src {hashes}",
        sheets=[Markup(asset(name)) for name in styles],
        scripts=[Markup(script) for script in code],
        payload=Markup(script_json(data)),
        **values,
    )
    return page


def script_json(data: dict[str, Any]) -> str:
    """Return JSON for a ``<script>`` block; characters that could end the block are escaped."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@lru_cache(maxsize=16)
def asset(name: str) -> str:
    """Return the text of a file in ``templates``, or of a file in ``vendor`` if its name begins with ``vendor/``."""
    folder = files("ninja.show")
    return (folder / name if name.startswith("vendor/") else folder / "templates" / name).read_text("utf-8")


@lru_cache(maxsize=16)
def _template(name: str) -> Any:
    with needed_for("a page"):
        from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(loader=PackageLoader("ninja.show"), autoescape=True, undefined=StrictUndefined).get_template(
        name
    )
