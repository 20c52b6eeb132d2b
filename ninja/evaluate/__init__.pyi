"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .biased import (
    BiasedRate as BiasedRate,
    BiasingList as BiasingList,
    read_biasing as read_biasing,
    score_biased as score_biased,
)
from .bootstrap import Bootstrap as Bootstrap, Interval as Interval, bootstrap as bootstrap
from .characters import CharacterRate as CharacterRate, score_characters as score_characters
from .confidence import (
    ConfidenceScores as ConfidenceScores,
    ConfidentWords as ConfidentWords,
    label_words as label_words,
    score_confidences as score_confidences,
)
from .details import (
    Operations as Operations,
    align_text as align_text,
    aligned_line as aligned_line,
    by_speaker as by_speaker,
    count_operations as count_operations,
    speaker_table as speaker_table,
    utterance_lines as utterance_lines,
)
from .entities import read_truth as read_truth, score_entities as score_entities
from .entity_report import EntityRate as EntityRate, EntityReport as EntityReport
from .error_rate import Alignment as Alignment, ErrorRate as ErrorRate, align as align, edits as edits
from .grid import (
    Grid as Grid,
    Hypotheses as Hypotheses,
    filtered as filtered,
    hypotheses_under as hypotheses_under,
    score_grid as score_grid,
)
from .lexical import choose_normalizer as choose_normalizer, lexical_texts as lexical_texts
from .phrases import Entity as Entity, Phrases as Phrases
from .scoring import (
    Mode as Mode,
    Numbered as Numbered,
    number as number,
    oracle_rate as oracle_rate,
    oracle_score as oracle_score,
    score as score,
    score_each as score_each,
    scored_keys as scored_keys,
)
from .stm import read_speakers as read_speakers, read_stm as read_stm, read_text as read_text
from .word_filters import GlobalMapping as GlobalMapping, WordFilter as WordFilter, read_glm as read_glm
from .written import WrittenRate as WrittenRate, differing_forms as differing_forms, score_written as score_written
