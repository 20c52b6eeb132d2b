"""Presets for the JSON of several recognisers, and the formats that use the presets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from ninja.errors import NinjaError
from ninja.formats.content import Content
from ninja.formats.format import Encoder, Format, Read, Write, WriteSettings
from ninja.formats.hypotheses.document import DocumentEncoder, DocumentOptions
from ninja.formats.hypotheses.marks import CUT, has_marks
from ninja.formats.hypotheses.mixed import MixedEncoder
from ninja.formats.hypotheses.preset import Preset, WordFields
from ninja.formats.hypotheses.reading import HypothesisReader, PresetOptions
from ninja.formats.hypotheses.rewriting import rewrite
from ninja.formats.hypotheses.segments import SeglstEncoder, lost_elsewhere
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import split
from ninja.formats.nbest.timed import TimedOptions
from ninja.lattice.nbest import NBest

_LISTED_SEGMENTS = (("[].text", "[].words[].probability"), ("[].text", "[].no_speech_prob"))


def _always(document: Any) -> bool:
    return True


def _has(name: str) -> Callable[[Any], bool]:
    """Return a function that tests whether a document is an object whose field `name` exists and is not null."""
    return lambda document: isinstance(document, dict) and document.get(name) is not None


def _of_words(name: str) -> Callable[[Any], bool]:
    """Return a function that tests whether each text in a list is empty or one word, and at least one is a word."""

    def applies(document: Any) -> bool:
        items = document.get(name) if isinstance(document, dict) else None
        texts = [item.get("text") for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        lengths = [len(split(text)) if isinstance(text, str) else math.inf for text in texts]
        return max(lengths, default=0) == 1

    return applies


def _is_list(document: Any) -> bool:
    return isinstance(document, list)


def _listed(preset: Preset) -> Preset:
    """Derive a preset for files that contain a list of documents instead of a single document."""

    def below(fields: WordFields) -> WordFields:
        return replace(fields, items=f"[].{fields.items}")

    return replace(
        preset,
        utterances=f"[].{preset.utterances}".removesuffix("."),
        all_text=tuple(f"[].{path}" for path in preset.all_text),
        all_words=tuple(below(fields) for fields in preset.all_words),
        marks=tuple(tuple(f"[].{path}" for path in paths) for paths in preset.marks),
        applies=_is_list,
    )


_WHISPER_WORDS = WordFields(
    "words[]",
    text=("word", "text"),
    confidence=("probability", "confidence"),
    speaker=("speaker",),
    join="spelled",
)
_WHISPER = Preset(
    "whisper",
    "Whisper segments in JSON: openai-whisper, faster-whisper, whisper-timestamped, verbose_json",
    aliases=("openai-whisper", "faster-whisper", "whisper-timestamped"),
    marks=(
        ("segments[].text", "segments[].no_speech_prob"),
        ("segments[].text", "segments[].words[].probability"),
        ("segments[].text", "segments[].start", "segments[].end"),
        ("text", "segments", "language"),
        (f"text{CUT}",),
        ("text", "words[].word", "words[].start", "language"),
    ),
    utterances="segments[]",
    words=(_WHISPER_WORDS,),
    start=("start",),
    end=("end",),
    speaker=("speaker",),
    all_text=("text",),
    all_words=(_WHISPER_WORDS,),
    applies=_has("segments"),
)
_WHISPERX = Preset(
    "whisperx",
    "WhisperX segments with aligned words",
    marks=(("segments[].words[].score",), ("segments", "word_segments")),
    utterances="segments[]",
    words=(WordFields("words[]", confidence=("score",), speaker=("speaker",), join="spelled"),),
    start=("start",),
    end=("end",),
    speaker=("speaker",),
    all_text=("text",),
    all_words=(WordFields("word_segments[]", join="spelled"),),
)
_TOKENS = WordFields(
    "tokens[]",
    text=("text",),
    start=("offsets.from", "timestamps.from"),
    end=("offsets.to", "timestamps.to"),
    unit=0.001,
    confidence=("p",),
    join="text",
    skip=r"\[_.*\]",
)
_WHISPER_CPP = Preset(
    "whisper.cpp",
    "whisper.cpp segments (-oj, -ojf)",
    marks=(("transcription[].offsets.from", "transcription[].text"), ("transcription", "result.language")),
    utterances="transcription[]",
    words=(_TOKENS,),
    start=("offsets.from",),
    end=("offsets.to",),
    unit=0.001,
    speaker=("speaker",),
)
_CHUNKS = WordFields("chunks[]", text=("text",), start=("timestamp[0]",), end=("timestamp[1]",), join="spelled")
_PIPELINE = Preset(
    "huggingface",
    "results of Hugging Face's speech recognition pipeline",
    marks=(("text", "chunks[].timestamp", "chunks[].text"),),
    words=(_CHUNKS,),
    applies=_of_words("chunks"),
)
_PIPELINE_CHUNKS = replace(
    _PIPELINE,
    utterances="chunks[]",
    words=(),
    start=_CHUNKS.start,
    end=_CHUNKS.end,
    all_text=("text", "speakers[].text"),
    applies=_has("chunks"),
)
_NEMO = Preset(
    "nemo-manifest",
    "NeMo manifests with pred_text, and beams or word times",
    marks=(("pred_text",),),
    key=("audio_filepath",),
    text=("pred_text", *(f"{field}[].segment" for field in ("segment", "timestamps_segment", "timestamp.segment"))),
    words=(WordFields("word[]"), WordFields("timestamps_word[]"), WordFields("timestamp.word[]")),
    in_order=False,
    beside_lattices=False,
)
_NEMO_BEAMS = replace(
    _NEMO,
    hypotheses="beams[]",
    text=("[0]",),
    score=("[1]",),
    meaning="logprob",
    words=(),
    all_text=_NEMO.text,
    all_words=_NEMO.words,
    applies=_has("beams"),
)
_VOSK = Preset(
    "vosk",
    "Vosk results with word times or alternatives",
    marks=(("text", "result[].word", "result[].start"),),
    words=(WordFields("result[]", confidence=("conf",)),),
)
_VOSK_ALTERNATIVES = replace(
    _VOSK,
    marks=(("alternatives[].text", "alternatives[].confidence"),),
    hypotheses="alternatives[]",
    score=("confidence",),
    meaning="logprob",
    applies=_has("alternatives"),
)
_SHERPA = Preset(
    "sherpa-onnx",
    "sherpa-onnx, sherpa-ncnn and sherpa results: tokens and their times",
    aliases=("sherpa",),
    marks=(("text", "tokens", "timestamps"),),
    words=(
        WordFields(
            "",
            text=("tokens",),
            start=("timestamps",),
            duration=("durations",),
            join="text",
            beside=("ys_log_probs", "ys_probs", "lm_probs", "context_scores"),
        ),
    ),
)
_TICK = 1e-7  # unit of times in Azure's results, in seconds
_AZURE = Preset(
    "azure",
    "detailed results of Azure's speech service, for single requests or batches",
    marks=(("NBest[].Display",), ("NBest[].Lexical",), ("RecognitionStatus", "Offset", "Duration")),
    hypotheses="NBest[]",
    score=("Confidence",),
    text=("Display", "Lexical", "ITN", "MaskedITN"),
    words=(
        WordFields(
            "Words[]",
            text=("Word",),
            start=("Offset",),
            end=(),
            duration=("Duration",),
            unit=_TICK,
            confidence=("Confidence",),
        ),
        WordFields(
            "DisplayWords[]",
            text=("DisplayText", "Word"),
            start=("Offset",),
            end=(),
            duration=("Duration",),
            unit=_TICK,
        ),
    ),
    start=("Offset",),
    duration=("Duration",),
    unit=_TICK,
    speaker=("SpeakerId",),
    channel=("Channel",),
    all_text=("DisplayText",),
)
_BATCH_START = ("offsetInTicks", "offset", "offsetMilliseconds")
_BATCH_DURATION = ("durationInTicks", "duration", "durationMilliseconds")
_AZURE_BATCH = replace(
    _AZURE,
    marks=(
        ("recognizedPhrases[].nBest[].display",),
        ("recognizedPhrases[].nBest[].lexical",),
        ("combinedRecognizedPhrases[].display",),
        (f"combinedRecognizedPhrases[].lexical{CUT}",),
    ),
    utterances="recognizedPhrases[]",
    hypotheses="nBest[]",
    score=("confidence",),
    text=("display", "lexical", "itn", "maskedITN"),
    words=(
        WordFields(
            "words[]",
            start=_BATCH_START,
            end=(),
            duration=_BATCH_DURATION,
            unit=_TICK,
            confidence=("confidence",),
        ),
        WordFields(
            "displayWords[]",
            text=("displayText",),
            start=_BATCH_START,
            end=(),
            duration=_BATCH_DURATION,
            unit=_TICK,
        ),
    ),
    start=_BATCH_START,
    duration=_BATCH_DURATION,
    speaker=("speaker", "nBest[0].speaker"),
    channel=("channel",),
    all_text=tuple(f"combinedRecognizedPhrases[].{form}" for form in ("display", "lexical", "itn", "maskedITN")),
    applies=_has("recognizedPhrases"),
)
_AZURE_FAST = Preset(
    _AZURE.name,
    _AZURE.about,
    marks=(("phrases[].offsetMilliseconds", "phrases[].text"), ("combinedPhrases[].text", "durationMilliseconds")),
    utterances="phrases[]",
    words=(
        WordFields(
            "words[]", text=("text",), start=("offsetMilliseconds",), end=(), duration=("durationMilliseconds",)
        ),
    ),
    start=("offsetMilliseconds",),
    duration=("durationMilliseconds",),
    speaker=("speaker",),
    channel=("channel",),
    all_text=("combinedPhrases[].text",),
    applies=_has("phrases"),
)
_AWS_ITEMS = WordFields(
    "results.items[]",
    text=("alternatives[0].content",),
    start=("start_time",),
    end=("end_time",),
    confidence=("alternatives[0].confidence", "confidence"),
    speaker=("speaker_label",),
    join="punctuation",
)
_AWS = Preset(
    "aws",
    "Amazon Transcribe transcripts",
    marks=(("results.transcripts[].transcript",), ("results.items[].alternatives[].content",)),
    text=(
        "results.transcripts[].transcript",
        "results.audio_segments[].transcript",
        "results.segments[].alternatives[0].transcript",
    ),
    words=(
        _AWS_ITEMS,
        replace(_AWS_ITEMS, items="results.segments[].alternatives[0].items[]", text=("content",), order="time"),
        replace(_AWS_ITEMS, items="results.channel_labels.channels[].items[]", order="time"),
    ),
)
_GOOGLE = Preset(
    "google",
    "Google Speech-to-Text responses, API versions 1 and 2",
    marks=(("results[].alternatives[].transcript",), ("response.results[].alternatives[].transcript",)),
    utterances="results[]",
    hypotheses="alternatives[]",
    score=("confidence",),
    text=("transcript",),
    words=(
        WordFields(
            "words[]",
            start=("startTime", "startOffset"),
            end=("endTime", "endOffset"),
            confidence=("confidence",),
            speaker=("speakerLabel", "speakerTag"),
        ),
    ),
    channel=("channelTag",),
)
_DEEPGRAM = Preset(
    "deepgram",
    "Deepgram responses",
    marks=(("results.channels[].alternatives[].transcript",), ("metadata.request_id", "results.channels")),
    utterances="results.channels[]",
    hypotheses="alternatives[]",
    score=("confidence",),
    text=("transcript", "paragraphs.paragraphs[].sentences[].text", "paragraphs.transcript"),
    words=(WordFields("words[]", text=("punctuated_word", "word"), confidence=("confidence",), speaker=("speaker",)),),
    all_text=("results.utterances[].transcript",),
    all_words=(WordFields("results.utterances[].words[]", text=("punctuated_word", "word"), order="channel"),),
)
_DEEPGRAM_LIVE = replace(
    _DEEPGRAM,
    marks=(("channel.alternatives[].transcript",),),
    utterances="",
    hypotheses="channel.alternatives[]",
    start=("start",),
    duration=("duration",),
    all_text=(),
    all_words=(),
    applies=lambda document: _has("type")(document) and not _has("results")(document),
)
_LHOTSE = Preset(
    "lhotse",
    "lhotse supervisions, alone or in cuts",
    marks=(
        ("id", "recording_id", "start", "duration", "text"),
        ("[].id", "[].recording_id", "[].start", "[].duration", "[].text"),
    ),
    key=("id",),
    may_lack_text=True,
    words=(
        WordFields("alignment.word[]", text=("[0]",), start=("[1]",), end=(), duration=("[2]",), confidence=("[3]",)),
    ),
    start=("start",),
    duration=("duration",),
    in_order=False,
    beside_lattices=False,
    speaker=("speaker",),
    channel=("channel",),
)
_CUTS = replace(
    _LHOTSE,
    marks=(("id", "supervisions[].start", "supervisions[].text"),),
    utterances="supervisions[]",
    applies=_has("supervisions"),
)
_MIXED_CUTS = replace(
    _CUTS,
    marks=(("id", "tracks[].cut.supervisions[].text"),),
    utterances="tracks[].cut.supervisions[]",
    applies=_has("tracks"),
)
_SEGLST = Preset(
    "seglst",
    "segments of a session, with speakers (SegLST)",
    marks=(("[].session_id", "[].words", "[].start_time"), ("[].session_id", "[].words", "[].speaker")),
    utterances="[]",
    text=("words",),
    start=("start_time",),
    end=("end_time",),
    in_order=False,
    beside_lattices=False,
    speaker=("speaker",),
    channel=("channel",),
    extensions=(".json",),
    new_file=SeglstEncoder,
)
_WORDS = Preset(
    "ninja-words",
    "words with confidences, as written by `ninja best --json`",
    marks=(("key", "text", "words[].confidence"),),
    key=("key",),
    words=(WordFields("words[]", confidence=("confidence",)),),
    in_order=False,
)
# Presets in the order of detection; variants of a format are adjacent, and the last variant has no condition.
PRESETS = (
    _WORDS,
    _WHISPERX,
    replace(_WHISPER, utterances="[]", all_text=(), all_words=(), marks=_LISTED_SEGMENTS, applies=_is_list),
    _WHISPER,
    # If a long text fills the first bytes, the fields after it are unknown, and the file may also be from the pipeline.
    replace(_PIPELINE, name=_WHISPER.name, marks=()),
    replace(_PIPELINE_CHUNKS, name=_WHISPER.name, marks=()),
    replace(_WHISPER, utterances="", words=_WHISPER.all_words, all_text=(), all_words=(), marks=(), applies=_always),
    _WHISPER_CPP,
    _listed(_PIPELINE_CHUNKS),
    _PIPELINE,
    _PIPELINE_CHUNKS,
    replace(_PIPELINE, words=(), applies=_always),
    _NEMO_BEAMS,
    _NEMO,
    _VOSK_ALTERNATIVES,
    _listed(_VOSK),
    _VOSK,
    _listed(_SHERPA),
    _SHERPA,
    _AZURE_BATCH,
    _AZURE_FAST,
    _listed(_AZURE),
    _AZURE,
    _AWS,
    replace(_GOOGLE, utterances="response.results[]", applies=_has("response")),
    _GOOGLE,
    _DEEPGRAM_LIVE,
    _DEEPGRAM,
    replace(
        _listed(_CUTS),
        utterances="[].supervisions[]|[].tracks[].cut.supervisions[]",
        marks=(*_listed(_CUTS).marks, *_listed(_MIXED_CUTS).marks),
        applies=lambda document: (
            _is_list(document) and any(_has(name)(cut) for cut in document for name in ("supervisions", "tracks"))
        ),
    ),
    _MIXED_CUTS,
    _CUTS,
    replace(_LHOTSE, utterances="[]", applies=_is_list),
    _LHOTSE,
    _SEGLST,
)


def _format(presets: Sequence[Preset]) -> Format:
    """Create a format whose reader selects one of several variants of a preset."""
    first = presets[0]

    def read(content: Content, options: PresetOptions) -> Iterator[NBest | NinjaError]:
        return HypothesisReader(content, options, presets).lists()

    def encoder(settings: WriteSettings) -> Encoder:
        documents = DocumentEncoder(settings, first.name, partial(rewrite, presets=presets, options=settings.options))
        return documents if first.new_file is None else MixedEncoder(first.name, documents, first.new_file(settings))

    also_lost = None if first.new_file is None else partial(lost_elsewhere, form=first.name)
    return Format(
        name=first.name,
        about=first.about,
        holds="nbest",
        extensions=first.extensions,
        aliases=first.aliases,
        mark=partial(has_marks, tuple(marks for preset in presets for marks in preset.marks)),
        read=Read(list_entries(read), PresetOptions),
        results=not first.beside_lattices,
        keeps=frozenset({"key", "names", "times", "frame shift", "fields"}),
        write=Write(
            encoder=encoder,
            options=DocumentOptions if first.new_file is None else TimedOptions,
            also_lost=also_lost,
            unique_keys=True,
            rewrites_files=True,
            restores=first.new_file is not None,
        ),
    )


FORMATS = tuple(_format([*variants]) for _, variants in groupby(PRESETS, lambda preset: preset.name))
