"""Render the table of formats in docs/formats.md from the registry."""

from pathlib import Path

from ninja.formats.format import FIELDS, Format, fill_options, formats

PAGE = Path(__file__).with_name("formats.md")
BEGIN, END = "<!-- formats, written by `make docs` -->\n", "<!-- end of formats -->\n"
HEAD = """| `--from`, `--to` | format | endings | read, written | words | cannot hold |
|---|---|---|---|---|---|
"""
FILES = {"one": "many per file", "each": "one per file", "named": "a folder"}
MEANINGLESS = {"lattice": {"word costs"}, "network": {"word costs", "raw"}, "nbest": {"raw"}}  # of what a format holds


def render() -> str:
    """Return the page with a fresh table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{HEAD}{''.join(map(_row, formats()))}{END}{after}"


def _row(format: Format) -> str:
    names = ", ".join(f"`{name}`" for name in (format.name, *format.aliases))
    endings = ", ".join(f"`{each}`" for each in format.extensions) or "–"
    ways = ["read"] if format.read else []
    words = lacks = "–"
    if format.write is not None:
        way = "original files are rewritten" if format.write.rewrites_files else f"written, {FILES[format.write.files]}"
        ways.append(way)
        kept = format.kept(fill_options(format.write.options, {}, format.name))
        words = " and ".join(each for each in ("ids", "names") if each in kept)
        told = {name: text for name, text in FIELDS.items() if name != "fields"}  # lattices have none
        told |= {"paths": "paths beyond `n`"} if format.holds == "nbest" else {}
        unsaid = kept | MEANINGLESS[format.holds] | {"ids", "names"}  # words have a column of their own
        lacks = ", ".join(text for field, text in told.items() if field not in unsaid) or "nothing is lost"
    return f"| {names} | {format.about} | {endings} | {'; '.join(ways)} | {words} | {lacks} |\n"


if __name__ == "__main__":
    PAGE.write_text(render())
