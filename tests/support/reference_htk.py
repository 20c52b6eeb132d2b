"""A strict checker of HTK's lattice files, based on their description, independent of our readers.

The rules of the HTK Book 3.4 (chapter "Lattices"), and additional rules of the readers of HTK, SRILM and TheanoLM,
each of which rejects files that the other readers accept.
"""

import re

from reference_slf import RuleError, require

__all__ = ["RuleError", "check_htk"]
HEADER = {"VERSION", "V", "UTTERANCE", "U", "SUBLAT", "S", "base", "lmname", "ngname", "vocab", "hmms", "start", "end"}
HEADER |= {"dir", "tscale", "acscale", "lmscale", "ngscale", "prscale", "duscale", "wdpenalty", "amscale"}
HEADER |= {f"x{parse_number}scale" for parse_number in range(1, 10)} | {"NODES", "N", "LINKS", "L"}
SCORES = {"acoustic", "a", "r", "ds", "p", *(f"x{parse_number}" for parse_number in range(1, 10))}
NODE = {"time", "t", "WORD", "W", "L", "var", "v", "div", "d", "states", "s"} | SCORES
LINK = {"START", "S", "END", "E", "WORD", "W", "var", "v", "div", "d", "states", "s"} | SCORES
LINK |= {"ngram", "n", "language", "l"}
ONE_NAME = {"NODES": "N", "LINKS": "L", "START": "S", "END": "E", "WORD": "W", "time": "t", "acoustic": "a"}
ONE_NAME |= {"language": "l", "ngram": "n", "var": "v", "div": "d", "states": "s", "VERSION": "V", "UTTERANCE": "U"}
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")  # HTK reads neither ".5" nor "inf"


def value_at(line, at):
    """Read a value as HTK's ReadString does; return it and the position after it."""
    quote = line[at] if line[at] in "'\"" else ""
    at += len(quote)
    letters = []
    while True:
        if at == len(line):
            require(not quote, "a quote is not closed")
            return "".join(letters), at
        letter = line[at]
        if letter == quote:
            return "".join(letters), at + 1
        if not quote and letter.isspace():
            return "".join(letters), at
        if letter == "\\":
            require(at + 1 < len(line), "a backslash ends the line")
            octal = line[at + 1] in "01234567"
            if octal:
                digits = line[at + 1 : at + 4]
                require(re.fullmatch("[0-3][0-7]{2}", digits), f"not three octal digits: {digits}")
            letters.append(chr(int(digits, 8)) if octal else line[at + 1])
            at += 4 if octal else 2
        else:
            letters.append(letter)
            at += 1


def fields(line, names):
    """Return the fields of a line, by their short names."""
    at, values = 0, {}
    while line[at:].strip():
        at += len(line[at:]) - len(line[at:].lstrip())
        name = re.match("[A-Za-z0-9]*", line[at:])[0]
        require(name and line[at + len(name) :][:1] == "=", f"no NAME=VALUE at {line[at:]!r}")
        require(name in names, f"{name} is not a field of this line")
        at += len(name) + 1
        require(at < len(line) and not line[at].isspace(), f"{name} has no value")
        value, at = value_at(line, at)
        require(at == len(line) or line[at].isspace(), f"no blank after {name}")
        require(ONE_NAME.get(name, name) not in values, f"{name} occurs twice")
        values[ONE_NAME.get(name, name)] = value
    return values


def parse_number(text):
    require(NUMBER.fullmatch(text), f"HTK does not read {text!r} as a number")
    return float(text)


def parse_count(text, limit):
    require(text.isascii() and text.isdigit() and int(text) < limit, f"{text!r} is not a number below {limit}")
    return int(text)


def check_htk(content):
    """Check a lattice without sub-lattices; return its header, nodes and links as (start, end, fields).

    Raises:
        RuleError: It breaks a rule.
    """
    text = content.decode()
    require(text.endswith("\n"), "the last line has no newline")
    require("\0" not in text and "\r" not in text, "characters that HTK does not read")
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    header = {}
    while not {"N", "L"} <= header.keys():
        require(lines, "the numbers of nodes and links are missing")
        for name, value in fields(lines.pop(0), HEADER).items():
            require(name not in header, f"{name} occurs twice")
            header[name] = value
    require(header.get("V", "").startswith("1."), "no version")
    for name, value in header.items():
        if name.endswith("scale") or name in ("wdpenalty", "base"):
            parse_number(value)
    size, count = parse_count(header["N"], 2**31), parse_count(header["L"], 2**31)
    require(size > 0, "no nodes")
    nodes = []
    for index in range(size):  # SRILM needs nodes before links; these tests also need them in order
        require(lines, "too few nodes")
        values = fields(lines.pop(0), NODE | {"I"})
        require(values.pop("I", None) == str(index), f"node {index} is out of order")
        if "t" in values:
            require(parse_number(values["t"]) >= 0, "a negative time")
        nodes.append(values)
    require(len({"t" in node for node in nodes}) == 1, "only some nodes have times")
    links = []
    for index in range(count):
        require(lines, "too few links")
        values = fields(lines.pop(0), LINK | {"J"})
        require(values.pop("J", None) == str(index), f"link {index} is out of order")
        require({"S", "E"} <= values.keys(), f"link {index} has no start or no end")
        src, dst = parse_count(values.pop("S"), size), parse_count(values.pop("E"), size)
        require("W" in values or "W" in nodes[dst], f"link {index} has no word")
        require(not ("W" in values and "W" in nodes[dst]), f"link {index} and node {dst} both have a word")
        for name in (SCORES | {"l", "n"}) & values.keys():
            require(float(header.get("base", 1)) != 0 or parse_number(values[name]) > 0, f"{name} is not a probability")
            parse_number(values[name])
        links.append((src, dst, values))
    require(not lines, "lines after the last link")
    check_shape(header, size, links)
    for src, dst, _ in links:
        if "t" in nodes[src]:
            require(
                parse_number(nodes[src]["t"]) <= parse_number(nodes[dst]["t"]),
                f"a link from {src} to {dst} goes back in time",
            )
    return header, nodes, links


def check_shape(header, size, links):
    """Check that there is one initial node, one final node, and no cycle."""
    initial = sorted(set(range(size)) - {dst for _, dst, _ in links})
    final = sorted(set(range(size)) - {src for src, _, _ in links})
    require(len(initial) == 1 and len(final) == 1, f"HTK needs one initial and one final node: {initial}, {final}")
    require(header.get("start", str(initial[0])) == str(initial[0]), "start is another node")
    require(header.get("end", str(final[0])) == str(final[0]), "end is another node")
    leaving, missing = [[] for _ in range(size)], [0] * size
    for src, dst, _ in links:
        leaving[src].append(dst)
        missing[dst] += 1
    ready, num_sorted = initial, 0
    while ready:
        num_sorted += 1
        for dst in leaving[ready.pop()]:
            missing[dst] -= 1
            if missing[dst] == 0:
                ready.append(dst)
    require(num_sorted == size, "a cycle")
