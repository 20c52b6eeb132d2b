"""The phrase encoder: training data, training, vectors, and stored models."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ninja.cli.main import main
from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.recipe import EXTRACTORS, INPUTS, OUTPUTS, EncoderOptions, PointerOptions
from ninja.context.deep.symbols import FIRST, Symbols, padded
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.distances import NO_PHONE, distances
from ninja.errors import ModelError, OptionError
from ninja.lattice.characters import plain_letters
from ninja.models.entity_encoder import Config, EntityEncoder, joined
from ninja.train import encoder as training
from ninja.train import step
from ninja.train.encoder import train_encoder
from ninja.train.pairs import Mishearing, training_words

CONFUSION = Confusion.articulatory()
SYMBOLS = Symbols("abcdefghijklmnopqrstuvwxyz'", CONFUSION.phones)
ENTRIES = [
    (word, tuple(phones.split()))
    for word, phones in {
        "cat": "K AE T", "cad": "K AE D", "kat": "K AE T", "gat": "G AE T", "bat": "B AE T", "pat": "P AE T",
        "rome": "R OW M", "roam": "R OW M", "room": "R UW M", "loan": "L OW N", "tosh": "T AA SH", "dash": "D AE SH",
    }.items()
]  # fmt: skip
TINY = {"steps": 3, "batch": 8, "hidden": 6, "threads": 1}
STRINGS = st.lists(st.lists(st.sampled_from(CONFUSION.phones), max_size=6), min_size=1, max_size=5)


def tiny(**options) -> PhraseEncoder:
    return train_encoder(ENTRIES, SYMBOLS, CONFUSION, EncoderOptions(**{**TINY, **options}))


def test_card_of_a_time_limited_training_counts_its_steps(monkeypatch):
    clock = itertools.count(0, 60)  # each step takes a minute
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert tiny(steps=10**6, max_minutes=3.5).card["steps"] == 3


def test_a_time_limit_below_one_step_is_refused():
    with pytest.raises(OptionError, match="max_minutes is 1e-09, which is too short for one step; increase it"):
        tiny(steps=10**6, max_minutes=1e-9)


@given(STRINGS, STRINGS)
def test_batched_distances_agree_with_single_distances(spoken, recognised):
    rows = [
        padded([[number + 1 for number in CONFUSION.numbers(string)] for string in strings]) - 1
        for strings in (spoken, recognised)
    ]
    assert NO_PHONE == -1
    batched = distances(rows[0][:, None], rows[1][None], CONFUSION)
    slow = [[CONFUSION.distance(first, second) for second in recognised] for first in spoken]
    np.testing.assert_allclose(batched, slow, atol=1e-4)


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize("inputs", INPUTS)
def test_vectors_do_not_depend_on_the_batch(extractor, inputs):
    torch.manual_seed(1)
    network = EntityEncoder(Config(29, 41, inputs=inputs, extractor=extractor, hidden=5, embedding=4)).eval()
    encoder = PhraseEncoder(network, SYMBOLS, {})
    texts, phones = zip(*ENTRIES, ("longer word", ("L", "AO", "NG", "G", "ER")), ("x", ()), strict=True)
    batch = encoder.vectors(texts, phones)
    single = np.concatenate([encoder.vectors([text], [sound]) for text, sound in zip(texts, phones, strict=True)])
    np.testing.assert_allclose(batch, single, atol=1e-5)
    last_norm = 1.0 if inputs != "phones" else 0.0
    np.testing.assert_allclose(np.linalg.norm(batch, axis=1), [*[1.0] * (len(texts) - 1), last_norm], atol=1e-5)


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("extractor", ["boundary", "attention-boundary"])
def test_decoder_losses_decrease_in_training(outputs, extractor):
    torch.manual_seed(1)
    network = EntityEncoder(Config(29, 41, outputs=outputs, extractor=extractor, hidden=16))
    letters, phones = (
        torch.from_numpy(padded(part).T.copy())
        for part in zip(*[(SYMBOLS.spelled(text), SYMBOLS.pronounced(sound)) for text, sound in ENTRIES], strict=True)
    )
    optimiser = torch.optim.Adam(network.parameters(), 3e-2)
    losses = []
    for _ in range(25):
        _, loss = network.losses(letters, phones, (letters, phones))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_joined_strings_have_no_inner_padding():
    config = Config(29, 41)
    letters, phones = torch.tensor([[2, 3], [4, 0]]), torch.tensor([[2, 5], [3, 6]])
    assert joined(letters, phones, config).T.tolist() == [[2, 4, 29, 30], [3, 32, 33, 0]]


def test_neighbours_sound_alike_and_mishearings_are_never_empty():
    words = training_words(ENTRIES, SYMBOLS, CONFUSION)
    near = {
        words.texts[index]: {words.texts[neighbour] for neighbour in neighbours}
        for index, neighbours in enumerate(words.near)
    }
    assert "kat" in near["cat"]
    assert "tosh" not in near["cat"]
    spoken, recognised = Mishearing(words, SYMBOLS, CONFUSION, np.random.default_rng(1)).batch(50)
    assert len(spoken) == len(recognised) == 50
    assert all(letters and phones for letters, phones in spoken)
    assert all(phones for _, phones in recognised)


def test_trained_vectors_of_similar_words_are_close():
    encoder = tiny(steps=30, batch=16, hidden=12, learning_rate=0.02)
    vectors = encoder.vectors(*zip(*ENTRIES, strict=True))
    near = vectors @ vectors.T
    index = {word: number for number, (word, _) in enumerate(ENTRIES)}
    assert near[index["rome"], index["roam"]] > near[index["rome"], index["cat"]] + 0.3
    assert near[index["cat"], index["gat"]] > near[index["cat"], index["tosh"]] + 0.8  # 0.6 without training


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize("inputs", INPUTS)
def test_training_accepts_phrases_without_phones(extractor, inputs):
    losses = []
    options = EncoderOptions(**TINY | {"steps": 5, "extractor": extractor, "inputs": inputs})
    entries = [(word, phones if number % 2 else ()) for number, (word, phones) in enumerate(ENTRIES)]
    train_encoder(entries, SYMBOLS, CONFUSION, options, lambda progress: losses.append(progress.loss))
    assert np.isfinite(losses).all()


def test_diverging_training_raises_model_error():
    with pytest.raises(ModelError, match="diverged at step 2; use a learning rate below"):
        tiny(learning_rate=1e30)


def test_training_is_deterministic():
    first, second = (tiny().network.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", ["context.pt", "context.safetensors"])
def test_saved_encoder_is_restored(tmp_path, name):
    encoder = tiny(inputs="letters", hidden=1)
    encoder.save(tmp_path / name)
    loaded = PhraseEncoder.load(tmp_path / name)
    assert (loaded.symbols, loaded.card, loaded.network.config) == (SYMBOLS, encoder.card, encoder.network.config)
    np.testing.assert_allclose(loaded.vectors(["rome"], [()]), encoder.vectors(["rome"], [()]), atol=2e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "ninja-lm"}, "not a context model"),
        ({"version": 2}, "version 2"),
        ({"letters": "abc"}, "does not match the letters and phones"),
        ({"card": None}, "'card' is missing"),
        ({"config": {"hidden": 10**9}}, "hidden in the configuration is 1000000000"),
        ({"config": {"extractor": "oracle"}}, "'oracle'"),
        ({"state": {"sharpness": torch.tensor(torch.nan)}}, "NaN"),
        ({"state": {"sharpness": torch.zeros(2)}}, "does not match the configuration"),
        ({"state": {"more": torch.zeros(2)}}, "missing or unexpected: more"),
    ],
)
def test_damaged_model_raises_model_error(tmp_path, change, message):
    path = tmp_path / "context.pt"
    tiny().save(path)
    content = torch.load(path, weights_only=True)
    for key, value in change.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) else value
    torch.save(content, path)
    with pytest.raises(ModelError, match=message):
        PhraseEncoder.load(path)


def test_file_of_another_format_raises_model_error(tmp_path):
    path = tmp_path / "context.pt"
    path.write_bytes(b"no zip")
    with pytest.raises(ModelError, match="not a context model, or damaged"):
        PhraseEncoder.load(path)


@pytest.mark.parametrize(
    ("options_class", "options", "message"),
    [
        *((EncoderOptions, {name: "oracle"}, f"{name} is 'oracle'") for name in ("extractor", "inputs", "outputs")),
        (EncoderOptions, {"metric": float("inf")}, "metric is inf, but must be 0 or more"),
        (EncoderOptions, {"threads": 100_000_000}, "threads is 100000000, but must be at most 4096"),
        (PointerOptions, {"threads": 100_000_000}, "threads is 100000000, but must be at most 4096"),
        (EncoderOptions, {"hidden": 100_001}, "hidden is 100001, but must be at most 100000"),
        (PointerOptions, {"width": 100_001}, "width is 100001, but must be at most 100000"),
        (PointerOptions, {"width": 1}, "width is 1, but must be 2 or more"),
        *(
            (options, {"learning_rate": 1e300}, "learning_rate is 1e[+]300, but must be above 0 and at most")
            for options in (EncoderOptions, PointerOptions)
        ),
    ],
)
def test_invalid_options_raise_option_error(options_class, options, message):
    with pytest.raises(OptionError, match=message):
        options_class(**options)


def test_an_encoder_larger_than_the_memory_raises_option_error(monkeypatch):
    monkeypatch.setattr(step, "BYTES_PER_WEIGHT", 1 << 60)
    with pytest.raises(OptionError, match="but the device cpu has"):
        tiny()


def test_unknown_letters_and_phones_are_dropped():
    assert plain_letters("Côte d'Azur-2") == "coted'azur2"
    assert SYMBOLS.spelled("서울 Ab") == [FIRST, FIRST + 1]
    assert not SYMBOLS.spelled("Москва")
    assert SYMBOLS.unknown(["Ян", "ab"])["я"] == 1
    assert not SYMBOLS.pronounced(["K", "Q"])
    encoder = tiny(inputs="letters")
    assert not encoder.vectors(["Москва"], [()]).any()


def test_too_few_training_words_raise_option_error():
    with pytest.raises(OptionError, match="at least 2 usable training words are needed, found 1"):
        training_words(ENTRIES[:1], SYMBOLS, CONFUSION)


def test_train_command_accepts_any_alphabet(tmp_path):
    (tmp_path / "names").write_text("# names\nмосква\nмоскве\nказань\nказани\n")
    (tmp_path / "held").write_text("Казани\n")
    files = [str(tmp_path / "names"), "--held-out", str(tmp_path / "held"), "-o", str(tmp_path / "context.pt")]
    assert main(["train", "context", *files, "--letters-only", "--steps", "2", "--batch", "4", "--hidden", "4"]) == 0
    encoder = PhraseEncoder.load(tmp_path / "context.pt")
    assert encoder.symbols.letters == "авезкмнось"
    assert encoder.card["entries"] == 3
    assert not encoder.takes_phones


@pytest.mark.parametrize(
    ("arguments", "conflicts"),
    [
        ("--inputs phones --outputs letters", "--inputs"),
        ("--lexicon names --confusion names", "--confusion, --lexicon"),
    ],
)
def test_letters_only_conflicts_with_phone_options(tmp_path, monkeypatch, capsys, arguments, conflicts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names").write_text("a\nb\n")
    assert main(["train", "context", "names", "-o", "context.pt", "--letters-only", *arguments.split()]) == 2
    assert capsys.readouterr().err.endswith(f"trains on letters alone; omit {conflicts}\n")


def test_encoder_options_are_fields_of_the_network_config():
    names = {field.name for field in dataclasses.fields(Config)}
    assert {"extractor", "inputs", "outputs", "hidden"} <= names
