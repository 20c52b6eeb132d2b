"""Bars in the code of tables: GitHub wants them escaped, and the site shows the escapes."""

import re
from typing import Any


def on_page_markdown(markdown: str, **about: Any) -> str:
    """Take the backslashes before bars out of code in the rows of tables."""
    return re.sub(r"^\|.*$", lambda row: _unescaped(row[0]), markdown, flags=re.MULTILINE)


def _unescaped(row: str) -> str:
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row)
