"""Error rates of transcripts and lattices, alignments, and reports."""

from ninja.evaluate.biased import BiasedRate, BiasingList, read_biasing, score_biased
from ninja.evaluate.bootstrap import Bootstrap, Interval, bootstrap
from ninja.evaluate.characters import CharacterRate, score_characters
from ninja.evaluate.confidence import ConfidenceScores, ConfidentWords, label_words, score_confidences
from ninja.evaluate.details import (
    Operations,
    align_text,
    aligned_line,
    by_speaker,
    count_operations,
    speaker_table,
    utterance_lines,
)
from ninja.evaluate.entities import Phrases, read_truth, score_entities
from ninja.evaluate.entity_report import Entity, EntityRate, EntityReport
from ninja.evaluate.error_rate import Alignment, ErrorRate, align, edits
from ninja.evaluate.grid import Grid, Hypotheses, filtered, hypotheses_under, score_grid
from ninja.evaluate.lexical import choose_normalizer, lexical_texts
from ninja.evaluate.scoring import Mode, Numbered, number, oracle_rate, oracle_score, score, score_each, scored_keys
from ninja.evaluate.stm import read_stm
from ninja.evaluate.word_filters import GlobalMapping, WordFilter, read_glm
from ninja.evaluate.written import WrittenRate, differing_forms, score_written
from ninja.formats.kaldi.tables import read_speakers, read_text

__all__ = [
    "Alignment",
    "BiasedRate",
    "BiasingList",
    "Bootstrap",
    "CharacterRate",
    "ConfidenceScores",
    "ConfidentWords",
    "Entity",
    "EntityRate",
    "EntityReport",
    "ErrorRate",
    "GlobalMapping",
    "Grid",
    "Hypotheses",
    "Interval",
    "Mode",
    "Numbered",
    "Operations",
    "Phrases",
    "WordFilter",
    "WrittenRate",
    "align",
    "align_text",
    "aligned_line",
    "bootstrap",
    "by_speaker",
    "choose_normalizer",
    "count_operations",
    "differing_forms",
    "edits",
    "filtered",
    "hypotheses_under",
    "label_words",
    "lexical_texts",
    "number",
    "oracle_rate",
    "oracle_score",
    "read_biasing",
    "read_glm",
    "read_speakers",
    "read_stm",
    "read_text",
    "read_truth",
    "score",
    "score_biased",
    "score_characters",
    "score_confidences",
    "score_each",
    "score_entities",
    "score_grid",
    "score_written",
    "scored_keys",
    "speaker_table",
    "utterance_lines",
]
