"""A page for rescoring lattices manually in the browser: one HTML file without external resources."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files

from ninja.show.page import script_json

SCRIPT, STYLE, LISTS = "/*SCRIPT*/", "/*STYLE*/", "/*LISTS*/"  # marks in the template


@lru_cache(maxsize=8)
def _asset(name: str) -> str:
    return (files("ninja.serve") / "templates" / name).read_text("utf-8")


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_asset("page.js").encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


POLICY = _policy()  # Content-Security-Policy: the page runs only its own script, and connects only to its server


def page(lists: list[str]) -> str:
    """Return the HTML of the page; `lists` are the names of the server's phrase lists."""
    content = _asset("page.html").replace(STYLE, _asset("page.css")).replace(LISTS, script_json({"lists": lists}))
    return content.replace(SCRIPT, _asset("page.js"))
