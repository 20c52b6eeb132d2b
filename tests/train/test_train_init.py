"""Trainings that start with the weights of a checkpoint keep its words and sizes and never end with a worse model."""

import dataclasses
import shutil

import pytest
from toy_training import TOY, toy, toy_text_files, toy_texts  # noqa: F401

from ninja.errors import ModelError, OptionError
from ninja.train.recipe import SIZES, TrainOptions

torch = pytest.importorskip("torch")

from ninja.lm import checkpoint, text  # noqa: E402
from ninja.lm.checkpoint import Checkpoint  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402
from ninja.train import corpus, normaliser, objective  # noqa: E402
from ninja.train import loop as train  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
UNSIZED = {name: value for name, value in dataclasses.asdict(TOY).items() if name not in SIZES}


def options_from_checkpoint(init, **options):
    """Return the options of a toy training that starts with a checkpoint."""
    return TrainOptions(**{**UNSIZED, "init": str(init), "learning_rate": 5e-3, **options})


@pytest.fixture(scope="module")
def general_checkpoint(tmp_path_factory):
    """Train a model on the toy language."""
    folder = tmp_path_factory.mktemp("general")
    train.train(*toy_texts(folder), folder / "general.pt", toy(epochs=3))
    return folder / "general.pt"


@pytest.fixture
def general_path(tmp_path, general_checkpoint):
    """Copy the model for a test that may overwrite it."""
    return shutil.copy(general_checkpoint, tmp_path)


@pytest.fixture
def domain_paths(tmp_path):
    """Write texts of another domain, with a word that the general model lacks."""
    lines = [f"object{number % 8} verb{number % 5} subject{number % 3}" for number in range(120)]
    lines[7] += " promptly"
    (tmp_path / "domain.txt").write_text("\n".join(lines))
    (tmp_path / "domain_dev.txt").write_text("\n".join(lines[10:30]))
    return tmp_path / "domain.txt", tmp_path / "domain_dev.txt"


@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
def test_a_training_starts_with_weights_words_and_sizes_of_a_checkpoint(tmp_path, texts, domain_paths, architecture):
    general_path = tmp_path / "general.pt"
    train.train(*texts, general_path, toy(epochs=3, architecture=architecture, heads=2))
    initial = checkpoint.read(general_path)
    reports = []
    result = train.train(
        *domain_paths,
        tmp_path / "domain.pt",
        options_from_checkpoint(general_path, dropout=0.2, epochs=8),
        reports.append,
    )
    result_checkpoint = checkpoint.read(tmp_path / "domain.pt")
    assert result_checkpoint.words == initial.words
    assert result_checkpoint.module.config == dataclasses.replace(initial.module.config, dropout=0.2)
    dev = text.encode(domain_paths[1], initial.words)
    assert reports[0].step == 0
    assert reports[0].best
    assert reports[0].perplexity == pytest.approx(objective.perplexity(initial.module, dev), rel=1e-6)
    assert result.perplexity < 0.9 * reports[0].perplexity
    assert result_checkpoint.card["init_sha256"] == text.digest(general_path)
    assert initial.card["init_sha256"] is None


def test_a_training_without_improvement_keeps_the_initial_weights(tmp_path, general_path, texts):
    result = train.train(
        *texts, tmp_path / "again.pt", options_from_checkpoint(general_path, learning_rate=3.0, epochs=1)
    )
    assert result.step == 0
    initial, final = checkpoint.read(general_path), checkpoint.read(tmp_path / "again.pt")
    assert result.perplexity == pytest.approx(initial.card["perplexity"], rel=1e-6)
    assert all(map(torch.equal, initial.module.state_dict().values(), final.module.state_dict().values()))


def test_unk_represents_no_fewer_words_than_before(tmp_path, general_path, domain_paths):
    stored = checkpoint.read(general_path)
    for unk_words, expected in ((0, 1), (5, 5)):
        checkpoint.save(dataclasses.replace(stored, card={"unk_words": unk_words}), general_path)
        train.train(*domain_paths, tmp_path / "domain.pt", options_from_checkpoint(general_path, epochs=0.2))
        card = checkpoint.read(tmp_path / "domain.pt").card
        assert card["unk_words"] == expected
        assert card["train_unknown"] > 0


def test_the_normaliser_is_trained_for_the_new_weights(tmp_path, general_path, texts, domain_paths, monkeypatch):
    monkeypatch.setattr(normaliser, "FEWEST_STEPS", 20)
    sentences, dev = (text.encode(path, checkpoint.read(general_path).words) for path in texts)
    train.add_normaliser(general_path, sentences, dev, toy(normaliser=8))
    initial = checkpoint.read(general_path).module
    train.train(*domain_paths, tmp_path / "domain.pt", options_from_checkpoint(general_path))
    final = checkpoint.read(tmp_path / "domain.pt").module
    assert final.config.normaliser == initial.config.normaliser == 8
    assert not torch.equal(final.normaliser[0].weight, initial.normaliser[0].weight)
    monkeypatch.setattr(normaliser, "PASSES", 0)
    monkeypatch.setattr(normaliser, "FEWEST_STEPS", 0)
    train.train(*domain_paths, tmp_path / "same.pt", options_from_checkpoint(general_path))
    unchanged = checkpoint.read(tmp_path / "same.pt").module.normaliser.state_dict()
    assert all(map(torch.equal, unchanged.values(), initial.normaliser.state_dict().values()))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 25}, "hidden is 25, but the checkpoint .*general.pt sets the sizes; omit hidden"),
        ({"vocabulary": 50}, "vocabulary is 50, but"),
        ({"min_count": 3}, "min_count is 3, but"),
        ({"architecture": "transformer"}, "architecture is transformer, but"),
        ({"normaliser": 8}, "normaliser is 8, but"),
        ({"projection": 8}, "projection is 8, but"),
    ],
)
def test_sizes_that_contradict_the_checkpoint_are_refused(tmp_path, general_path, texts, sizes, message):
    with pytest.raises(OptionError, match=message):
        train.train(*texts, tmp_path / "lm.pt", options_from_checkpoint(general_path, **sizes))
    train.train(*texts, tmp_path / "lm.pt", options_from_checkpoint(general_path, hidden=24, embedding=16, epochs=0.1))


def test_the_command_refuses_sizes_with_init(tmp_path, general_path, domain_paths, ninja):
    arguments = ["train", domain_paths[0], "--dev", domain_paths[1], "--init", general_path, "-o", tmp_path / "lm.pt"]
    code, _, errors = ninja(*arguments, "--hidden", 768, "--layers", 2)
    assert (code, errors) == (
        2,
        "ninja: error: with --init, sizes and words come from the checkpoint; omit --hidden, --layers\n",
    )
    code, _, errors = ninja(*arguments, "--epochs", 0.5, "--batch-tokens", 128, "--threads", 1)
    assert code == 0, errors
    assert "step 0/" in errors
    assert checkpoint.read(tmp_path / "lm.pt").words == checkpoint.read(general_path).words


def test_unsuitable_checkpoints_are_refused(tmp_path, texts):
    module = LSTMLanguageModel(Config(4, embedding=4, hidden=6, layers=1))
    checkpoint.save(Checkpoint(module, ["</s>", "<s>", "<unk>", "a"], {}), tmp_path / "other.pt")
    with pytest.raises(ModelError, match=r"other\.pt: .* first words of the vocabulary must be <s>, </s>, <unk>"):
        train.train(*texts, tmp_path / "lm.pt", options_from_checkpoint(tmp_path / "other.pt"))
    with pytest.raises(ModelError, match="no such file; specify a checkpoint"):
        train.train(*texts, tmp_path / "lm.pt", options_from_checkpoint(tmp_path / "none.pt"))


def test_a_resumed_training_is_bit_identical_and_needs_the_same_checkpoint(tmp_path, general_path, texts):
    def stop(report):
        if report.step >= 8:
            raise KeyboardInterrupt

    options = options_from_checkpoint(general_path, dropout=0.2, epochs=2)
    train.train(*texts, tmp_path / "whole.pt", options)
    with pytest.raises(KeyboardInterrupt):
        train.train(*texts, tmp_path / "halves.pt", options, stop)
    with pytest.raises(OptionError, match=r"init_sha256 was \w+ and is now None"):
        train.train(*texts, tmp_path / "halves.pt", toy(dropout=0.2, learning_rate=5e-3, epochs=2, resume=True))
    reports = []
    train.train(*texts, tmp_path / "halves.pt", dataclasses.replace(options, resume=True), reports.append)
    assert reports[0].step > 0
    expected, weights = (checkpoint.read(tmp_path / name).module.state_dict() for name in ("whole.pt", "halves.pt"))
    assert all(map(torch.equal, expected.values(), weights.values()))


def test_resuming_before_the_first_check_does_not_reduce_the_patience(tmp_path, general_path, texts, monkeypatch):
    options = options_from_checkpoint(general_path, learning_rate=0.5, patience=2)
    reports, resumed_reports = [], []
    train.train(*texts, tmp_path / "whole.pt", options, reports.append)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train, "gradient", stop)
        with pytest.raises(KeyboardInterrupt):
            train.train(*texts, tmp_path / "halves.pt", options)
    train.train(*texts, tmp_path / "halves.pt", dataclasses.replace(options, resume=True), resumed_reports.append)
    assert [report.step for report in reports] == [0, 8, 16]
    assert [report.step for report in resumed_reports] == [8, 16]


@pytest.mark.parametrize("method", ["bmuf", "adpsgd"])
def test_a_single_worker_of_any_method_starts_with_the_checkpoint(tmp_path, general_path, texts, method):
    train.train(*texts, tmp_path / "plain.pt", options_from_checkpoint(general_path, epochs=1))
    train.train(*texts, tmp_path / "lm.pt", options_from_checkpoint(general_path, epochs=1, parallel=method))
    expected, weights = (checkpoint.read(tmp_path / name).module.state_dict() for name in ("plain.pt", "lm.pt"))
    assert all(map(torch.equal, expected.values(), weights.values()))


def test_a_training_can_follow_a_failed_one(tmp_path, general_path, texts):
    def stop(_):
        raise KeyError("progress")

    options = options_from_checkpoint(general_path, parallel="bmuf", epochs=1)
    with pytest.raises(KeyError):
        train.train(*texts, tmp_path / "lm.pt", options, stop)
    train.train(*texts, tmp_path / "again.pt", options)


def test_ids_of_a_large_text_use_the_given_words(tmp_path, domain_paths, monkeypatch):
    monkeypatch.setattr(corpus, "LARGE", 0)
    words = (*text.SPECIAL, "subject1", "verb2")
    default_choice = corpus.Choice(100, 1, hold_out=False)
    choice_with_words = corpus.Choice(100, 1, hold_out=False, words=words)
    for choice in (default_choice, choice_with_words, default_choice):
        result = corpus.open_corpus(str(domain_paths[0]), choice)
        expected = text.encode(domain_paths[0], result.words)
        assert (result.sentences.word == expected.word).all()
        assert result.sentences.unk_words == expected.unk_words
    assert len(list(tmp_path.glob("*.ids"))) == 2
    assert corpus.open_corpus(str(domain_paths[0]), choice_with_words).words == [*words]
