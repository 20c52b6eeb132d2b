"""Render the table of formats in docs/formats.md from the registry."""

from pathlib import Path

from ninja.formats.format import FIELDS, Format, fill_options, formats

PAGE = Path(__file__).with_name("formats.md")
BEGIN, END = "<!-- formats, written by `make docs` -->\n", "<!-- end of formats -->\n"
HEAD = """| `--from`, `--to` | format | extensions | access | words | cannot store |
|---|---|---|---|---|---|
"""
FILES = {"one": "many per file", "each": "one per file", "named": "a folder"}
MEANINGLESS = {
    "lattice": {"word costs"},
    "network": {"word costs", "raw"},
    "nbest": {"raw"},
}  # by the contents of a format


def render() -> str:
    """Return the page with a fresh table."""
    before, _, table = PAGE.read_text().partition(BEGIN)
    _, _, after = table.partition(END)
    return f"{before}{BEGIN}{HEAD}{''.join(map(_row, formats()))}{END}{after}"


def _row(format: Format) -> str:
    names = ", ".join(f"`{name}`" for name in (format.name, *format.aliases))
    endings = ", ".join(f"`{extension}`" for extension in format.extensions) or "–"
    access = ["read"] if format.read else []
    words = lacks = "–"
    if format.write is not None:
        method = (
            "original files are rewritten" if format.write.rewrites_files else f"written, {FILES[format.write.files]}"
        )
        access.append(method)
        stored_fields = format.stored_fields(fill_options(format.write.options, {}, format.name))
        words = " and ".join(name for name in ("ids", "names") if name in stored_fields)
        descriptions = {name: text for name, text in FIELDS.items() if name != "fields"}  # lattices have no such field
        descriptions |= {"paths": "paths beyond `n`"} if format.holds == "nbest" else {}
        omitted = stored_fields | MEANINGLESS[format.holds] | {"ids", "names"}  # words have a separate column
        lacks = ", ".join(text for field, text in descriptions.items() if field not in omitted) or "nothing is lost"
    return f"| {names} | {format.about} | {endings} | {'; '.join(access)} | {words} | {lacks} |\n"


if __name__ == "__main__":
    PAGE.write_text(render())
