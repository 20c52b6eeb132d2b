"""`ninja.lm.wrap`: networks in memory; words are tokenized when they are scored; words in upper case."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from lattice_files import write_all

import ninja as package
from ninja.errors import ModelError, OptionError
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, wrap
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")

from reference_transformer import stepwise  # noqa: E402
from tiny_hf import (  # noqa: E402
    SIZES,
    TABLE,
    WORDS,
    folder,
    load_model,
    make_trie,
    no_network,  # noqa: F401
    one_quiet_thread,  # noqa: F401
)
from tokenizers import normalizers  # noqa: E402

from ninja.lm.huggingface.piece_network import LogitsLM, PieceLM  # noqa: E402


def model_and_tokenizer(kind, family="AutoModelForCausalLM"):
    path = folder(kind)
    model = getattr(transformers, family).from_pretrained(path)
    return model, transformers.AutoTokenizer.from_pretrained(path)


def with_table_words(lm):
    lm.vocabulary.ids(word for word, _ in TABLE)
    return lm


def assert_close_scores(lm, expected, atol=1e-4):
    parent, word = make_trie(expected)
    scores = expected.score_trie(parent, word)
    np.testing.assert_allclose(lm.score_trie(parent, word), scores, atol=atol)
    np.testing.assert_allclose(stepwise(lm, parent, word), scores, atol=atol)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_wrapped_model_has_the_scores_of_its_directory(kind):
    model, tokenizer = model_and_tokenizer(kind)
    lm = with_table_words(wrap(model.train(), tokenizer, max_batch=7))
    assert not model.training
    assert type(lm._pieces) is PieceLM
    assert_close_scores(lm, load_model(kind))


def test_a_wrapped_masked_model_scores_whole_sentences():
    lm = with_table_words(wrap(*model_and_tokenizer("bert", "AutoModelForMaskedLM")))
    assert lm.whole_sentences
    sentence = lm.vocabulary.ids(["the", "cat", "sat"])
    assert lm.score_sentences([sentence]) == pytest.approx(load_model("bert").score_sentences([sentence]), abs=1e-4)


@pytest.mark.parametrize("family", ["FNet", "ConvBert"])
def test_sentence_scores_of_networks_without_masks_do_not_depend_on_the_batch(family):
    tokenizer = model_and_tokenizer("bert", "AutoModelForMaskedLM")[1]
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer), intermediate_size=32, initializer_range=0.3, **SIZES
    )
    lm = wrap(getattr(transformers, f"{family}ForMaskedLM")(config), tokenizer)
    sentences = [lm.vocabulary.ids(text.split()) for text in ("the cat", "the dog sat on the mat", "a dog saw")]
    expected = [lm.score_sentences([sentence])[0] for sentence in sentences]
    assert lm.score_sentences(sentences) == pytest.approx(expected, abs=1e-4)


def test_positions_begin_after_the_padding_piece_in_roberta():
    options = {"intermediate_size": 32, "initializer_range": 0.3, "pad_token_id": 4, **SIZES}
    (_, pieces), (_, causal_pieces) = model_and_tokenizer("bert", "AutoModelForMaskedLM"), model_and_tokenizer("gpt2")
    config = transformers.RobertaConfig(vocab_size=len(pieces), **options)
    masked = wrap(transformers.RobertaForMaskedLM(config), pieces)
    config = transformers.RobertaConfig(vocab_size=len(causal_pieces), is_decoder=True, **options)
    causal = wrap(transformers.RobertaForCausalLM(config), causal_pieces)
    assert masked._longest == causal._pieces.longest == SIZES["max_position_embeddings"] - 5
    sentence = ["the", "cat"] * 40
    assert np.isfinite(masked.score_sentences([masked.vocabulary.ids(sentence)])).all()
    assert np.isfinite(package.lm.sentence_logprobs(causal, [causal.vocabulary.ids(sentence)])).all()


def test_a_network_of_text_and_images_uses_the_window_of_its_text_part():
    tokenizer = model_and_tokenizer("llama")[1]
    sizes = {**SIZES, "intermediate_size": 32, "num_attention_heads": 2}
    image = {"vision_config": {**sizes, "image_size": 16, "patch_size": 8}, "image_token_index": 3}
    text = {"vocab_size": len(tokenizer), "num_key_value_heads": 2, "sliding_window": 4, "initializer_range": 0.3}
    config = transformers.Gemma3Config(text_config={**sizes, **text}, **image)
    lm = with_table_words(wrap(transformers.Gemma3ForConditionalGeneration(config), tokenizer))
    parent, word = make_trie(lm, size=8, reach=1)
    np.testing.assert_allclose(lm.score_trie(parent, word), stepwise(lm, parent, word), atol=1e-4)
    assert lm._pieces.longest == SIZES["max_position_embeddings"]


def test_a_network_that_needs_another_type_of_cache_runs_without_one():
    tokenizer = model_and_tokenizer("llama")[1]
    sizes = {**SIZES, "intermediate_size": 32, "num_key_value_heads": 2, "initializer_range": 0.3}
    states = {"mamba_d_ssm": 16, "mamba_n_heads": 4, "mamba_d_head": 4, "mamba_d_state": 4, "mamba_chunk_size": 4}
    config = transformers.FalconH1Config(vocab_size=len(tokenizer), **sizes, **states)
    lm = with_table_words(wrap(transformers.FalconH1ForCausalLM(config), tokenizer))
    parent, word = make_trie(lm, size=8)
    np.testing.assert_allclose(lm.score_trie(parent, word), stepwise(lm, parent, word), atol=1e-4)
    assert lm._pieces._cache is None


class LogitsModule(torch.nn.Module):
    """A module that accepts only input_ids and returns logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return SimpleNamespace(logits=self.model(input_ids).logits)


class AdapterModel(torch.nn.Module):
    """A module that contains a model, like those of the PEFT library."""

    def __init__(self, model):
        super().__init__()
        self.base_model = SimpleNamespace()  # a tuner, not the network
        self.model = model
        self.config = model.config

    def get_base_model(self):
        return self.model

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)


def test_any_module_that_returns_logits_is_accepted():
    model, tokenizer = model_and_tokenizer("gpt2")
    lm = with_table_words(wrap(LogitsModule(model), tokenizer))
    assert type(lm._pieces) is LogitsLM
    assert (lm._pieces._cache, lm._pieces._block_nodes, lm.normalized) == (None, None, True)
    assert_close_scores(lm, load_model("gpt2"))
    raw_lm, expected = (
        with_table_words(wrap(LogitsModule(model), tokenizer, normalize=False)),
        load_model("gpt2", normalize=False),
    )
    assert not raw_lm.normalized
    assert_close_scores(raw_lm, expected)


def test_an_adapter_model_runs_as_its_base_model():
    model, tokenizer = model_and_tokenizer("llama")
    lm = with_table_words(wrap(AdapterModel(model), tokenizer))
    assert type(lm._pieces) is PieceLM
    assert lm._pieces._cache is not None
    assert_close_scores(lm, load_model("llama"))


@pytest.mark.filterwarnings("ignore")  # torch moved the successor of this function to a separate library
def test_a_quantised_model_keeps_its_scores():
    model, tokenizer = model_and_tokenizer("llama")
    model.eval()
    quantised_model = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {torch.nn.Linear}, torch.qint8)
    lm = with_table_words(wrap(quantised_model, tokenizer))
    assert type(lm._pieces) is LogitsLM
    sentence = ["the", "cat", "sat"]
    pieces = tokenizer(" ".join(sentence), add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logprob = quantised_model(torch.tensor([[1, *pieces]])).logits[0].log_softmax(-1)
    expected = sum(float(logprob[place, piece]) for place, piece in enumerate([*pieces, 2]))
    assert package.lm.sentence_logprobs(lm, [lm.vocabulary.ids(sentence)])[0] == pytest.approx(expected, abs=0.5)


def test_scores_in_half_precision_are_close():
    model, tokenizer = model_and_tokenizer("gpt2")
    lm = with_table_words(wrap(model.to(torch.bfloat16), tokenizer))
    assert lm._pieces._cache is not None
    assert_close_scores(lm, load_model("gpt2"), atol=0.3)


def test_a_module_without_logits_is_refused():
    with pytest.raises(ModelError, match="Linear returns no logits for input_ids"):
        wrap(torch.nn.Linear(2, 2), model_and_tokenizer("gpt2")[1])


def test_a_network_that_reads_later_pieces_is_refused():
    tokenizer = model_and_tokenizer("gpt2")[1]
    options = {"vocab_size": len(tokenizer), "intermediate_size": 32, "initializer_range": 0.3, **SIZES}
    decoder, encoder = (
        transformers.BertLMHeadModel(transformers.BertConfig(is_decoder=is_decoder, **options))
        for is_decoder in (True, False)
    )
    assert wrap(decoder, tokenizer).scores_tries
    with pytest.raises(ModelError, match="BertLMHeadModel: it is not causal, because its scores depend on later"):
        wrap(encoder, tokenizer)


def random_model(family, tokenizer, **options):
    """Create a model with weights so large that all parts of it affect the scores."""
    model = family(family.config_class(vocab_size=len(tokenizer), **options))
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.3)
    return model


def test_a_network_whose_scores_depend_on_the_length_of_the_input_is_refused():
    tokenizer = model_and_tokenizer("gpt2")[1]
    sizes = {"hidden_size": 16, "num_decoder_layers": 1, "num_decoder_attention_heads": 2, "decoder_ffn_dim": 16}
    model = random_model(transformers.ProphetNetForCausalLM, tokenizer, is_decoder=True, **sizes)
    model.config.is_encoder_decoder = False
    with pytest.raises(ModelError, match="ProphetNetForCausalLM: its scores depend on the length of the input, so"):
        wrap(model, tokenizer)


@pytest.mark.parametrize("causal", [False, True])
def test_xlm_is_causal_or_masked_depending_on_its_configuration(causal, tmp_path):
    tokenizer = model_and_tokenizer("bert", "AutoModelForMaskedLM")[1]
    sizes = {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 64}
    options = {"causal": causal, "asm": False, "n_langs": 1, "bos_token_id": 1, "eos_token_id": 2, **sizes}
    model = random_model(transformers.XLMWithLMHeadModel, tokenizer, **options)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for lm in (wrap(model, tokenizer), load(tmp_path)):
        assert lm.whole_sentences != causal
        sentences = [with_table_words(lm).vocabulary.ids(text) for text in (["the", "cat"], ["the"])]
        if causal:
            parent, word = make_trie(lm)
            np.testing.assert_allclose(lm.score_trie(parent, word), stepwise(lm, parent, word), atol=1e-4)
        else:
            assert np.isfinite(lm.score_sentences(sentences)).all()


def test_a_network_whose_cache_ignores_padding_runs_without_it():
    tokenizer = model_and_tokenizer("gpt2")[1]
    options = {**SIZES, "embedding_size": 16, "intermediate_size": 32, "is_decoder": True}
    lm = with_table_words(wrap(random_model(transformers.RoFormerForCausalLM, tokenizer, **options), tokenizer))
    assert lm._pieces._cache is None  # it rotates keys by their place in the padded input
    chain = np.array(lm.vocabulary.ids(["the", "cat", "sat"]), np.int32)
    expected = lm.score_trie(np.arange(-1, 2, dtype=np.int32), chain)
    start = lm.start(1)
    first = lm.advance(start, chain[:1])
    second = lm.advance(np.concatenate((first, start)), np.array([chain[1], chain[0]]))
    scores = lm.logprob(second, np.array([chain[2], chain[1]]))
    np.testing.assert_allclose(scores, expected[[2, 1]], atol=1e-4)


@pytest.mark.parametrize("family", ["BigBird", "Bert"])
def test_a_wide_trie_is_scored_by_a_network_with_few_positions(family):
    tokenizer = model_and_tokenizer("gpt2")[1]
    options = {**SIZES, "max_position_embeddings": 24, "intermediate_size": 32, "is_decoder": True}
    class_of = {"BigBird": transformers.BigBirdForCausalLM, "Bert": transformers.BertLMHeadModel}[family]
    lm = with_table_words(wrap(random_model(class_of, tokenizer, **options), tokenizer))
    words = np.array(lm.vocabulary.ids(WORDS.split()), np.int32)
    parent = np.concatenate((np.full(len(words), -1), np.repeat(np.arange(len(words)), len(words)))).astype(np.int32)
    word = np.concatenate((words, np.tile(words, len(words))))  # all pairs of words
    score = lm.score_trie(parent, word)
    assert lm._pieces._block_nodes is not None
    np.testing.assert_allclose(score, stepwise(lm, parent, word), atol=1e-4)


class RecordingTokenizer:
    """A tokenizer that records the texts that it tokenizes."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.split = []

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def __call__(self, texts, **options):
        self.split += texts
        return self.tokenizer(texts, **options)


def test_only_words_of_the_lattices_are_tokenized():
    model, tokenizer = model_and_tokenizer("gpt2")
    tokenizer = RecordingTokenizer(tokenizer)
    lm = wrap(model, tokenizer)
    words = SymbolTable.from_words(["<eps>", "the", "cat", *(f"w{number}" for number in range(10_000))])
    lattice = from_arcs("k", [0, 0, 1], [1, 1, 2], [1, 3, 2], [0.5, 0.25, 0], [7.0, 6.0, 0.0], finals={2: 0.0})
    list(rescore([("k", lattice.replace(words=words))], lm, RescoreOptions()))
    assert {text.split()[-1] for text in tokenizer.split} == {"the", "w0", "cat", "a", tokenizer.split[0]}
    assert len(tokenizer.split) < 8


def test_a_word_removed_by_the_tokenizer_fails_only_its_lattice():
    model, tokenizer = model_and_tokenizer("gpt2")
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("\u200b", "")
    lists = [("good", [("the cat", -1.0), ("a ,", -2.0)]), ("bad", [("\u200b the cat", -1.0)])]
    words = SymbolTable.growing()
    lattices = [(key, package.from_nbest(key, hypotheses, words=words)) for key, hypotheses in lists]
    errors = []
    report = RescoreReport(on_error=errors.append)
    options = RescoreOptions(acoustic_scale=1.0)
    assert [key for key, _ in rescore(lattices, wrap(model, tokenizer), options, report=report)] == ["good"]
    assert [error.key for error in errors] == ["bad"]


def make_upper_case_lattice():
    words = SymbolTable.from_words(["<eps>", "THE", "CAT", "SAT", "CATALOGUE", "<unk>"])
    lattice = from_arcs("k", [0, 1, 1, 2], [1, 2, 2, 3], [1, 2, 4, 3], [0.0] * 4, [1.0, 2.0, 2.5, 3.0], finals={3: 0.0})
    return lattice.replace(words=words)


def test_text_transform_lower_scores_words_in_lower_case():
    lower_lm, plain_lm = load(folder("gpt2"), text_transform="lower"), load(folder("gpt2"))
    words = ["THE", "Cat", "sat"]
    scores = package.lm.sentence_logprobs(lower_lm, [lower_lm.vocabulary.ids(words)])
    expected = package.lm.sentence_logprobs(plain_lm, [plain_lm.vocabulary.ids([word.lower() for word in words])])
    assert scores == pytest.approx(expected, abs=1e-5)
    with pytest.raises(OptionError, match="text_transform is 'upper', but must be lower"):
        load(folder("gpt2"), text_transform="upper")


@pytest.mark.parametrize(("transform", "has_warning"), [(None, True), ("lower", False)])
def test_words_in_upper_case_cause_a_warning(transform, has_warning):
    report = RescoreReport()
    lattice = make_upper_case_lattice()
    list(rescore([("k", lattice)], load(folder("gpt2"), text_transform=transform), RescoreOptions(), report=report))
    assert ("set text_transform to lower" in str(report.coverages[0])) == has_warning
    lower_table = SymbolTable((word.lower(), number) for word, number in lattice.words)
    report = RescoreReport()
    list(rescore([("k", replace(lattice, words=lower_table))], load(folder("gpt2")), RescoreOptions(), report=report))
    assert "text_transform" not in str(report.coverages[0])


def test_the_command_applies_the_text_transform(ninja, tmp_path):
    lattice = make_upper_case_lattice()
    write_all(tmp_path / "lat.ark", [lattice])
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in lattice.words))
    command = ["rescore", tmp_path / "lat.ark", "--rnnlm", folder("gpt2"), "-o", tmp_path / "out.ark"]
    code, _, stderr = ninja(*command)
    assert (code, "nearly all words are in upper case" in stderr) == (0, True)
    code, _, stderr = ninja(*command, "--text-transform", "lower")
    assert (code, "upper case" in stderr) == (0, False)
