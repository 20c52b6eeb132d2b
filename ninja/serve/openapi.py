"""The OpenAPI 3.1 document that describes the endpoints, and an HTML page that displays it."""

from __future__ import annotations

from html import escape
from typing import Any, get_args

from ninja.context.correction.corrector import Kind
from ninja.libraries import VERSION
from ninja.serve.corrections import MAX_WORDS, correctable
from ninja.serve.lattices import readable, writable
from ninja.serve.options import ServeOptions
from ninja.serve.problems import MEDIA_TYPE, TITLES
from ninja.serve.requests import CORRECT_DESCRIPTIONS, DESCRIPTIONS, MAX_KEY, MAX_N

ABOUT = (
    "Rescores lattices and n-best lists of speech recognisers with language models, and corrects transcripts. The "
    "lattices of concurrent requests are rescored in one batch; no result depends on other requests. A WebSocket at "
    "`/v1/stream` rescores a growing lattice, or the frames of a CTC model: see docs/howto/serve.md."
)
EXAMPLE = {
    "key": "utt1",
    "nbest": [
        {"text": "call john chan", "am_score": -2.0, "lm_score": -9.0},
        {"text": "call jon chen", "am_score": -2.5, "lm_score": -12.0},
    ],
    "entities": ["jon chen"],
    "n": 2,
}
RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}}}

CORRECT_EXAMPLE = {
    "transcript": {"key": "utt1", "nbest": [{"text": "call john chan", "score": -2.0}]},
    "entities": ["Jon Chen"],
}


def document(options: ServeOptions, lists: list[str], *, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI document.

    Args:
        options: Limits to state in the descriptions.
        lists: Names of the phrase lists.
        has_token: Whether clients must send a bearer token.
    """
    problems = {
        str(status): {
            "description": TITLES[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in (400, *((401,) if has_token else ()), 408, 413, 422, 429, 500, 503, 504)
    }
    for status in ("429", "503"):
        problems[status]["headers"] = RETRY_AFTER
    answers_of_correction = {
        "200": {
            "description": "The corrected transcript.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CorrectionAnswer"}}},
        },
        **problems,
    }
    correct = {
        "summary": "Correct names, places and titles in a transcript.",
        "description": (
            "Words that sound like a phrase are replaced with it if the change is probably correct. The body is a file "
            "in a transcript format, with options in the query, or a JSON object with the transcript and the options. "
            "The response contains the same document with the corrected words, and the list of changes. "
            f"Limits: {options.max_body} bytes, {options.max_lattice_arcs} words, {MAX_WORDS} words per utterance, "
            f"{options.max_phrases} phrases, {options.max_seconds:g} s."
        ),
        "operationId": "correct",
        "parameters": [
            _parameter("format", CORRECT_DESCRIPTIONS["format"], {"type": "string", "enum": correctable()}),
            _repeated("list", CORRECT_DESCRIPTIONS["lists"], _names(lists)),
            _repeated("phrase", "Phrase of this transcript.", {"type": "string"}),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/CorrectionRequest"},
                    "example": CORRECT_EXAMPLE,
                },
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "responses": answers_of_correction,
    }
    rescore = {
        "summary": "Rescore a lattice or an n-best list.",
        "description": (
            "The body is a file with one lattice in any format that Ninja reads, with options in the query, or a JSON "
            "object with the lattice and the options. The response contains the best hypotheses or, with `to`, the "
            f"lattice in that format. Limits: {options.max_body} bytes, {options.max_lattice_arcs} arcs, "
            f"{options.max_phrases} phrases, {options.max_seconds:g} s."
        ),
        "operationId": "rescore",
        "parameters": [
            *(
                _parameter(name, DESCRIPTIONS[name], schema)
                for name, schema in _options(lists).items()
                if name not in ("entities", "lists")
            ),
            _repeated("list", DESCRIPTIONS["lists"], _names(lists)),
            _repeated("phrase", "Phrase of this utterance.", {"type": "string"}),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Request"}, "example": EXAMPLE},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "responses": {
            "200": {
                "description": "The rescored lattice.",
                "headers": {
                    "X-Ninja-Complete": {
                        "description": "Whether the search was complete.",
                        "schema": {"type": "string", "enum": ["true", "false"]},
                    }
                },
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Answer"}},
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                },
            },
            **problems,
        },
    }
    paths: dict[str, Any] = {
        "/v1/rescore": {"post": rescore},
        "/v1/correct": {"post": correct},
        "/healthz": {"get": _text("Confirm that the process is running.")},
        "/readyz": {"get": _text("Report whether the server accepts lattices.", not_ready=True)},
        "/metrics": {"get": _text("Return metrics for Prometheus.", has_token=has_token)},
    }
    result: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Ninja", "version": VERSION, "description": ABOUT},
        "paths": paths,
        "components": {"schemas": _schemas(lists)},
    }
    if has_token:
        result["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, method in (("/v1/rescore", "post"), ("/v1/correct", "post"), ("/metrics", "get")):
            paths[path][method]["security"] = [{"token": []}]
    return result


def _names(lists: list[str]) -> dict[str, Any]:
    return {"type": "string", "enum": lists} if lists else {"type": "string"}


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _repeated(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return _parameter(name, f"{description} May be repeated.", {"type": "array", "items": schema})


def _options(lists: list[str]) -> dict[str, dict[str, Any]]:
    phrase = {
        "oneOf": [
            {"type": "string"},
            {
                "type": "object",
                "required": ["text"],
                "properties": {"text": {"type": "string"}, "weight": {"type": "number", "default": 1}},
            },
        ]
    }
    phrases = {"type": "array", "items": phrase}
    return {
        "key": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
        "format": {"type": "string", "enum": readable()},
        "to": {"type": "string", "enum": writable()},
        "n": {"type": "integer", "minimum": 1, "maximum": MAX_N, "default": 5},
        "entities": {"oneOf": [phrases, {"type": "object", "additionalProperties": phrases}]},
        "lists": {"type": "array", "items": _names(lists)},
        "deadline_ms": {"type": "number", "exclusiveMinimum": 0},
    }


def _text(summary: str, *, not_ready: bool = False, has_token: bool = False) -> dict[str, Any]:
    responses: dict[str, Any] = {
        "200": {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}
    }
    for status, applies in ((503, not_ready), (401, has_token)):
        if applies:
            content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
            responses[str(status)] = {"description": TITLES[status], "content": content}
    if not_ready:
        responses["503"]["headers"] = RETRY_AFTER
    return {"summary": summary, "responses": responses}


def _schemas(lists: list[str]) -> dict[str, Any]:
    score = {"type": "number"}
    hypothesis = {
        "type": "object",
        "required": ["text"],
        "properties": {"text": {"type": "string"}, "score": score, "am_score": score, "lm_score": score},
    }
    properties: dict[str, Any] = {
        "lattice": {"type": "string"},
        "lattice_base64": {"type": "string", "contentEncoding": "base64"},
        "nbest": {"type": "array", "items": hypothesis},
        **_options(lists),
    }
    for name, schema in properties.items():
        schema["description"] = DESCRIPTIONS[name]
    word = {
        "type": "object",
        "required": ["word"],
        "properties": {
            "word": {"type": "string"},
            "start": {"type": "number", "description": "Start of the word in seconds, if the lattice has times."},
            "end": {"type": "number", "description": "End of the word in seconds, if the lattice has times."},
            "confidence": {
                "type": "number",
                "description": "Probability in [0, 1]; only in the best hypothesis.",
            },
        },
    }
    return {
        "Request": {
            "type": "object",
            "additionalProperties": False,
            "properties": properties,
            "oneOf": [{"required": [name]} for name in ("lattice", "lattice_base64", "nbest")],
        },
        "Answer": {
            "type": "object",
            "required": ["key", "complete", "nbest", "alternatives"],
            "properties": {
                "key": {"type": "string"},
                "complete": {"type": "boolean", "description": "Whether the search ended before the deadline."},
                "nbest": {
                    "type": "array",
                    "description": "Hypotheses, best first.",
                    "items": {
                        "type": "object",
                        "required": ["text", "score", "am_score", "lm_score", "words"],
                        "properties": {
                            "text": {"type": "string"},
                            "score": {"type": "number", "description": "Weighted total log-probability."},
                            "am_score": {"type": "number", "description": "Acoustic log-probability, unscaled."},
                            "lm_score": {"type": "number", "description": "Graph log-probability after rescoring."},
                            "words": {"type": "array", "items": word},
                        },
                    },
                },
                "alternatives": {
                    "type": "array",
                    "description": "For each word of the best hypothesis, the most probable words in its place; "
                    "an empty string means that there is no word.",
                    "items": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["word", "confidence"],
                            "properties": {"word": {"type": "string"}, "confidence": {"type": "number"}},
                        },
                    },
                },
            },
        },
        **_correction_schemas(lists),
        "Problem": {
            "type": "object",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string", "description": "The error message, as the command line prints it."},
                "key": {"type": "string", "description": "Utterance id, if known."},
            },
        },
    }


def _correction_schemas(lists: list[str]) -> dict[str, Any]:
    text, number, index = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}
    document = {"oneOf": [text, {"type": "object"}, {"type": "array", "items": {}}]}
    shared = _options(lists)
    properties: dict[str, Any] = {
        "transcript": {**document},
        "format": {"type": "string", "enum": correctable()},
        "entities": shared["entities"],
        "lists": shared["lists"],
    }
    for name, schema in properties.items():
        schema["description"] = CORRECT_DESCRIPTIONS[name]
    change = {
        "utt": {**text, "description": "Utterance id."},
        "begin": {**index, "description": "Index of the first replaced word."},
        "end": {**index, "description": "Index after the last replaced word."},
        "before": {**text, "description": "The replaced words."},
        "after": {**text, "description": "The replacement words."},
        "phrase": {**text, "description": "The phrase as written in its list."},
        "class": {**text, "description": "Class of the phrase; an empty string if it has no class."},
        "kind": {"type": "string", "enum": list(get_args(Kind))},
        "distance": {**number, "description": "Phone confusion cost per phone of the phrase."},
        "probability": {**number, "description": "Probability that the change is correct, in [0, 1]."},
    }
    return {
        "CorrectionRequest": {
            "type": "object",
            "additionalProperties": False,
            "required": ["transcript"],
            "properties": properties,
        },
        "CorrectionAnswer": {
            "type": "object",
            "required": ["transcript", "changes"],
            "properties": {
                "transcript": {
                    **document,
                    "description": "The corrected document: a JSON value if the request contains one, else text.",
                },
                "changes": {
                    "type": "array",
                    "description": "Changes to the best hypotheses, in order.",
                    "items": {"type": "object", "required": list(change), "properties": change},
                },
            },
        },
    }


def reference_page(openapi: dict[str, Any]) -> str:
    """Return an HTML page about the endpoints in an OpenAPI document."""
    sections = []
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            sections.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            sections.append(f"<p>{_marked(operation['summary'])} {_marked(operation.get('description', ''))}</p>")
            rows = [(p["name"], p["schema"], p["description"]) for p in operation.get("parameters", ())]
            sections.append(_table("Query parameters", rows))
            answers = "".join(
                f"<tr><td>{status}<td>{escape(response['description'])}"
                for status, response in operation["responses"].items()
            )
            sections.append(f"<h3>Responses</h3><table>{answers}</table>")
    for name, schema in openapi["components"]["schemas"].items():
        rows = [(field, value, value.get("description", "")) for field, value in schema["properties"].items()]
        sections.append(f"<h2>{name}</h2>{_table('Fields', rows)}")
    return _PAGE.replace("CONTENT", "\n".join(sections)).replace("ABOUT", _marked(openapi["info"]["description"]))


def _table(title: str, rows: list[tuple[str, dict[str, Any], str]]) -> str:
    if not rows:
        return ""
    lines = (
        f"<tr><td><code>{escape(name)}</code><td>{escape(_kind(schema))}<td>{_marked(text)}"
        for name, schema, text in rows
    )
    return f"<h3>{title}</h3><table>{''.join(lines)}</table>"


def _kind(schema: dict[str, Any]) -> str:
    """Describe the type of value that a schema defines."""
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if "oneOf" in schema:
        return " or ".join(map(_kind, schema["oneOf"]))
    if schema.get("type") == "array":
        return f"array of {_kind(schema['items'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    kind: str = schema.get("type", "any")
    return f"{kind}, {low} to {high}" if low is not None and high is not None else kind


def _marked(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ninja: endpoints</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid #8886; padding: .3rem .6rem; vertical-align: top; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { body { background: #181a1b; color: #e8e6e3; } a { color: #8ab4f8; } }
</style></head><body>
<h1>Ninja</h1>
<p>ABOUT</p>
<p><a href="openapi.json">openapi.json</a> describes the endpoints for programs.
<a href="./">Rescore a lattice in the browser</a>.</p>
CONTENT
</body></html>
"""
