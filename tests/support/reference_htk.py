"""A strict checker of HTK's lattice files, based on their description, independent of our readers.

What the HTK Book 3.4 (chapter "Lattices") says of the format, and what HTK's, SRILM's and TheanoLM's readers demand
beyond it, each of which refuses something that the others let pass.
"""

import re

HEADER = {"VERSION", "V", "UTTERANCE", "U", "SUBLAT", "S", "base", "lmname", "ngname", "vocab", "hmms", "start", "end"}
HEADER |= {"dir", "tscale", "acscale", "lmscale", "ngscale", "prscale", "duscale", "wdpenalty", "amscale"}
HEADER |= {f"x{number}scale" for number in range(1, 10)} | {"NODES", "N", "LINKS", "L"}
SCORES = {"acoustic", "a", "r", "ds", "p", *(f"x{number}" for number in range(1, 10))}
NODE = {"time", "t", "WORD", "W", "L", "var", "v", "div", "d", "states", "s"} | SCORES
LINK = {"START", "S", "END", "E", "WORD", "W", "var", "v", "div", "d", "states", "s"} | SCORES
LINK |= {"ngram", "n", "language", "l"}
ONE_NAME = {"NODES": "N", "LINKS": "L", "START": "S", "END": "E", "WORD": "W", "time": "t", "acoustic": "a"}
ONE_NAME |= {"language": "l", "ngram": "n", "var": "v", "div": "d", "states": "s", "VERSION": "V", "UTTERANCE": "U"}
NUMBER = re.compile(
    r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?"
)  # HTK reads nothing else as a number: no ".5", no "inf"


class RuleError(Exception):
    """The file violates a rule."""


def require(condition, message):
    if not condition:
        raise RuleError(message)


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
            require(at + 1 < len(line), "nothing behind a backslash")
            octal = line[at + 1] in "01234567"
            if octal:
                digits = line[at + 1 : at + 4]
                require(re.fullmatch("[0-3][0-7]{2}", digits), f"not three octal digits: {digits}")
            letters.append(chr(int(digits, 8)) if octal else line[at + 1])
            at += 4 if octal else 2
        else:
            letters.append(letter)
            at += 1


def fields(line, known):
    """Return the fields of a line, by their short names."""
    at, found = 0, {}
    while line[at:].strip():
        at += len(line[at:]) - len(line[at:].lstrip())
        name = re.match("[A-Za-z0-9]*", line[at:])[0]
        require(name and line[at + len(name) :][:1] == "=", f"no NAME=VALUE at {line[at:]!r}")
        require(name in known, f"{name} is no field here")
        at += len(name) + 1
        require(at < len(line) and not line[at].isspace(), f"{name} has no value")
        value, at = value_at(line, at)
        require(at == len(line) or line[at].isspace(), f"no blank behind {name}")
        require(ONE_NAME.get(name, name) not in found, f"{name} occurs twice")
        found[ONE_NAME.get(name, name)] = value
    return found


def number(text):
    require(NUMBER.fullmatch(text), f"HTK reads {text!r} as no number")
    return float(text)


def whole(text, limit):
    require(text.isascii() and text.isdigit() and int(text) < limit, f"{text!r} is not a number below {limit}")
    return int(text)


def check_htk(content):
    """Check a lattice without sub-lattices; return its header, nodes and links as (start, end, fields).

    Raises:
        Wrong: It breaks a rule.
    """
    text = content.decode()
    require(text.endswith("\n"), "the last line has no end")
    require("\0" not in text and "\r" not in text, "letters that HTK does not read")
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    header = {}
    while not {"N", "L"} <= header.keys():
        require(lines, "no size")
        for name, value in fields(lines.pop(0), HEADER).items():
            require(name not in header, f"{name} occurs twice")
            header[name] = value
    require(header.get("V", "").startswith("1."), "no version")
    for name, value in header.items():
        if name.endswith("scale") or name in ("wdpenalty", "base"):
            number(value)
    size, count = whole(header["N"], 2**31), whole(header["L"], 2**31)
    require(size > 0, "no nodes")
    nodes = []
    for place in range(size):  # SRILM needs nodes before links; we need them in order, too
        require(lines, "too few nodes")
        found = fields(lines.pop(0), NODE | {"I"})
        require(found.pop("I", None) == str(place), f"node {place} is not where it should be")
        if "t" in found:
            require(number(found["t"]) >= 0, "a negative time")
        nodes.append(found)
    require(len({"t" in node for node in nodes}) == 1, "some nodes have times, others none")
    links = []
    for place in range(count):
        require(lines, "too few links")
        found = fields(lines.pop(0), LINK | {"J"})
        require(found.pop("J", None) == str(place), f"link {place} is not where it should be")
        require({"S", "E"} <= found.keys(), f"link {place} leads nowhere")
        src, dst = whole(found.pop("S"), size), whole(found.pop("E"), size)
        require("W" in found or "W" in nodes[dst], f"link {place} says nothing of a word")
        require(not ("W" in found and "W" in nodes[dst]), f"link {place} and node {dst} have a word")
        for name in (SCORES | {"l", "n"}) & found.keys():
            require(float(header.get("base", 1)) != 0 or number(found[name]) > 0, f"{name} is no probability")
            number(found[name])
        links.append((src, dst, found))
    require(not lines, "more behind the last link")
    check_shape(header, size, links)
    for src, dst, _ in links:
        if "t" in nodes[src]:
            require(number(nodes[src]["t"]) <= number(nodes[dst]["t"]), f"a link from {src} to {dst} goes back in time")
    return header, nodes, links


def check_shape(header, size, links):
    """Check that there is one initial node, one final node, and no cycle."""
    first = sorted(set(range(size)) - {dst for _, dst, _ in links})
    last = sorted(set(range(size)) - {src for src, _, _ in links})
    require(len(first) == 1 and len(last) == 1, f"HTK needs one first and one last node: {first}, {last}")
    require(header.get("start", str(first[0])) == str(first[0]), "start is another node")
    require(header.get("end", str(last[0])) == str(last[0]), "end is another node")
    leaving, missing = [[] for _ in range(size)], [0] * size
    for src, dst, _ in links:
        leaving[src].append(dst)
        missing[dst] += 1
    ready, done = first, 0
    while ready:
        done += 1
        for dst in leaving[ready.pop()]:
            missing[dst] -= 1
            if missing[dst] == 0:
                ready.append(dst)
    require(done == size, "a cycle")
