"""The presets of recognisers, and their formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from ninja.formats.content import Content, Entry
from ninja.formats.format import Encoder, Format, Read, Write, WriteSettings
from ninja.formats.hypotheses.document import DocumentEncoder, DocumentOptions
from ninja.formats.hypotheses.marks import has_marks
from ninja.formats.hypotheses.preset import Preset, WordFields
from ninja.formats.hypotheses.reading import PresetOptions, entries
from ninja.formats.hypotheses.rewriting import rewrite
from ninja.lattice.symbols import SymbolTable

PRESETS = (
    Preset(
        "whisper",
        "segments of OpenAI's Whisper, faster-whisper and their kin, in JSON",
        aliases=("openai-whisper", "faster-whisper"),
        marks=(("segments[].text", "segments[].no_speech_prob"), ("segments[].text", "segments[].words[].probability")),
        utterances="segments[]",
        text=("text",),
        words=(WordFields("words[]", confidence=("probability",), speaker=("speaker",)),),
        start=("start",),
        end=("end",),
        speaker=("speaker",),
        all_text=("text",),
    ),
)


def _format(presets: Sequence[Preset]) -> Format:
    """Make the format of the variants of a preset."""
    first = presets[0]

    def read(content: Content, words: SymbolTable | None, options: PresetOptions) -> Iterator[Entry]:
        return entries(content, words, options, presets)

    def encoder(settings: WriteSettings) -> Encoder:
        return DocumentEncoder(settings, first.name, partial(rewrite, presets=presets))

    return Format(
        name=first.name,
        about=first.about,
        holds="nbest",
        extensions=first.extensions,
        aliases=first.aliases,
        mark=partial(has_marks, tuple(marks for preset in presets for marks in preset.marks)),
        read=Read(read, PresetOptions),
        keeps=frozenset({"key", "names", "times", "frame shift", "fields"}),
        write=Write(encoder=encoder, options=DocumentOptions, unique_keys=True, as_it_came=True),
    )


FORMATS = tuple(_format([*variants]) for _, variants in groupby(PRESETS, lambda preset: preset.name))
