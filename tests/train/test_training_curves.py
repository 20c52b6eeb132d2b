"""The curves of docs/training.md: simulated learning curves, and the section generated from stored measurements."""

import math

import pytest
from stored_pages import check_page
from toy_training import toy, toy_sentences

torch = pytest.importorskip("torch")

from benchmarks.training import curves  # noqa: E402
from benchmarks.training.simulation import curve  # noqa: E402
from ninja.lm import text  # noqa: E402
from ninja.train.corpus import Choice, open_corpus  # noqa: E402
from ninja.train.parallel.block_momentum import block_factors  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")


@pytest.fixture(name="corpus", scope="module")
def toy_corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "train.txt"
    path.write_text("\n".join(toy_sentences(300, 1)))
    return open_corpus(str(path), Choice(60, 1, hold_out=False))


@pytest.fixture(name="dev", scope="module")
def toy_dev(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("dev") / "dev.txt"
    path.write_text("\n".join(toy_sentences(40, 2)))
    return text.encode(str(path), corpus.words)


@pytest.mark.parametrize(
    "changes",
    [
        {"parallel": "ssgd"},
        {"parallel": "ma"},
        {"parallel": "bmuf", "block_warmup": 6, "block_momentum": 0.25, "block_rate": 0.5},
        {"parallel": "adpsgd"},
    ],
)
def test_a_curve_falls_and_ends_with_the_result_of_the_training(corpus, dev, changes):
    options = toy(workers=2, epochs=2, **changes)
    points = curve(options, corpus, dev, 2)
    assert len(points) == 2
    assert points[0][0] < points[1][0]
    assert points[-1][1] < points[0][1]
    assert curve(options, corpus, dev) == points[-1:]


def test_ring_partners_differ_from_random_partners(corpus, dev):
    options = toy(workers=4, parallel="adpsgd", epochs=1)
    assert curve(options, corpus, dev, ring=True) != curve(options, corpus, dev)
    pair_options = toy(workers=2, parallel="adpsgd", epochs=1)  # each worker has a single partner
    assert curve(pair_options, corpus, dev, ring=True) == curve(pair_options, corpus, dev)


def test_a_training_that_diverges_ends_with_an_infinite_perplexity(corpus, dev):
    options = toy(workers=2, parallel="bmuf", block_momentum=0.98, block_rate=1e30, block_steps=1)
    assert curve(options, corpus, dev, 2)[-1][1] == math.inf


@pytest.mark.parametrize("momentum", curves.MOMENTA)
def test_the_blocks_of_the_momentum_table_have_the_published_rate(momentum):
    options = curves._filtered(momentum)
    factors = block_factors(options["block_momentum"], options["block_rate"], options["workers"])
    assert factors == pytest.approx((momentum, 1.0))


def test_the_documentation_matches_the_stored_measurements(tmp_path):
    check_page(curves.main, "training.md", curves.STORED, tmp_path)
    assert (tmp_path / "pictures/training_curves.svg").exists()
