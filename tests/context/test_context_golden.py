"""Context on real lattices with the default boosts: names are recognised, and other words are unchanged."""

import json

import pytest
from english_models import first_pass_trigram
from reference_graph import SHARED

from ninja import read
from ninja.context import (
    Augmentation,
    AugmentOptions,
    Context,
    ContextOptions,
    Contextual,
    Entities,
)
from ninja.evaluate import read_biasing, read_text, read_truth, score, score_biased, score_entities
from ninja.files.stream import text_of
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load

ENGLISH = SHARED / "data" / "english"
# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
pytestmark = pytest.mark.skipif(not ENGLISH.is_dir(), reason="the English test-bed is not next to this checkout")


@pytest.fixture(scope="module")
def models():
    words = SymbolTable.read(ENGLISH / "words.txt.gz")
    return words, load(ENGLISH / "class_lm.arpa"), first_pass_trigram()


def entities_of(words, size):
    lists, utterances = {}, {}
    for name in ("calls", "general"):
        for line in text_of(str(ENGLISH / "test" / name / "entities.jsonl.gz")).splitlines():
            record = json.loads(line)
            lists[f"{record['pool']}"] = {"file": str(ENGLISH / record["pool_file"]), "first": size}
            utterances[record["utt"]] = {"lists": [f"{record['pool']}"], "entities": record["true"]}
    return Entities.from_dict({"lists": lists, "utterances": utterances}, words=words)


def transcripts(name, words, stage, scale, penalty):
    lattices = read(ENGLISH / "test" / name / "lat.ark.gz", words=words)
    results = lattices if stage is None else stage(lattices, None)
    return {
        key: lattice.words.spell(best_path(lattice, Scales(acoustic=scale, word_penalty=penalty)).words)
        for key, lattice in results
    }


@pytest.fixture(scope="module")
def baseline_wer(models):
    """Return the word error rate of general sentences with an empty phrase list."""
    words, class_lm, old_lm = models
    baseline = Contextual(Context(Entities.from_dict({}), class_lm), old_lm)
    references = read_text(ENGLISH / "test" / "general" / "text")
    return score(references, transcripts("general", words, baseline, 1 / 12, 1.5)).wer


@pytest.mark.parametrize(("size", "min_correct"), [(100, 80), (5000, 76)])
def test_boosts_recover_names_and_keep_the_wer_of_general_sentences(models, baseline_wer, size, min_correct):
    words, class_lm, old_lm = models
    entities = entities_of(words, size)
    stage = Contextual(Context(entities, class_lm), old_lm)
    hypotheses = transcripts("calls", words, stage, 1 / 12, 1.5)
    truth = read_truth(ENGLISH / "test" / "calls" / "entities.jsonl.gz")
    references = read_text(ENGLISH / "test" / "calls" / "text")
    report = score_entities(references, hypotheses, entities.phrases(references), truth=truth, words=words)
    assert report.vocabulary(True).mentions == 163
    assert report.vocabulary(True).correct >= min_correct

    general = read_text(ENGLISH / "test" / "general" / "text")
    assert score(general, transcripts("general", words, stage, 1 / 12, 1.5)).wer <= baseline_wer + 0.2


def test_augmentation_recovers_names_outside_the_lattices(models, baseline_wer):
    pytest.importorskip("gruut", reason="needs the extra ninja-asr[phones]")
    words, class_lm, old_lm = models
    entities = entities_of(words, 100)
    augmentation = Augmentation(AugmentOptions(acoustic_scale=1 / 12))
    stage = Contextual(Context(entities, class_lm, augmentation=augmentation), old_lm)
    hypotheses = {name: transcripts(name, words, stage, 1 / 12, 1.5) for name in ("calls", "general")}
    truth = read_truth(ENGLISH / "test" / "calls" / "entities.jsonl.gz")
    references = read_text(ENGLISH / "test" / "calls" / "text")
    report = score_entities(references, hypotheses["calls"], entities.phrases(references), truth=truth, words=words)
    assert report.vocabulary(True).correct >= 105  # of 163 names, of which 88 are in the original lattices
    assert report.vocabulary(False).correct > 0  # names with words outside the vocabulary of the recogniser
    general = read_text(ENGLISH / "test" / "general" / "text")
    assert score(general, hypotheses["general"]).wer <= baseline_wer + 0.2


def test_biasing_lists_lower_biased_but_not_unbiased_wer(models):
    words, _, _ = models
    lists = read_biasing(ENGLISH / "test" / "libri" / "biasing_100.jsonl.gz")
    phrases = {key: {"phrases": list(biasing.bias)} for key, biasing in lists.items()}
    entities = Entities.from_dict({"utterances": phrases}, words=words)
    references = read_text(ENGLISH / "test" / "libri" / "text")
    boosted = Contextual(Context(entities, options=ContextOptions()))
    before, after = (
        score_biased(references, transcripts("libri", words, stage, 0.1, 1.0), lists) for stage in (None, boosted)
    )
    assert after.biased.wer <= 0.75 * before.biased.wer
    assert after.unbiased.wer <= before.unbiased.wer + 0.2
