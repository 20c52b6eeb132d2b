"""The Transformer: its definition, its training, and its states; scores do not depend on the order of requests."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_training import toy

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, sentence_logprobs, text
from ninja.lm.trie import score_trie

torch = pytest.importorskip("torch")

from reference_transformer import attend_by_loops, score_by_sentences, stepwise  # noqa: E402
from tiny_transformer import WORDS, make_lm, make_module  # noqa: E402

from ninja.lm import checkpoint  # noqa: E402
from ninja.lm.attention import network as attention  # noqa: E402
from ninja.lm.attention.network import Forest, batches, pad  # noqa: E402
from ninja.lm.attention.transformer import TransformerLM  # noqa: E402
from ninja.models.transformer import Config, TransformerLanguageModel  # noqa: E402
from ninja.train import loop as train  # noqa: E402
from ninja.train import objective  # noqa: E402


def make_trie(random, size, reach=8):
    """Return a random trie: (parent, word), int32 [size] each."""
    parent = [int(random.integers(max(-1, node - reach), node)) for node in range(size)]
    return np.array(parent, np.int32), random.integers(1, len(WORDS), size).astype(np.int32)


# The network


@torch.no_grad()
def test_the_network_agrees_with_plain_loops():
    module = make_module(layers=2)
    sentence = [0, 5, 9, 5]
    output = module(torch.tensor(sentence)[:, None])[:, 0].numpy()
    np.testing.assert_allclose(output, attend_by_loops(module, sentence), atol=1e-5)


@torch.no_grad()
def test_outputs_do_not_depend_on_later_words_or_padding():
    module = make_module()
    short, long = module(torch.tensor([[0, 0], [4, 4], [7, 7], [0, 8]]))[:3].unbind(1)
    np.testing.assert_allclose(short, long, atol=1e-5)
    np.testing.assert_allclose(module(torch.tensor([[0], [4], [7]]))[:, 0], short, atol=1e-5)


@torch.no_grad()
def test_outputs_depend_on_the_order_of_words():
    module = make_module()
    first, second = module(torch.tensor([[0, 0], [4, 7], [7, 4], [9, 9]]))[-1]
    assert float((first - second).abs().max()) > 0.05


# States


@given(seed=st.integers(0, 10_000), size=st.integers(1, 40), reach=st.integers(1, 12))
@settings(max_examples=12)
def test_tries_and_steps_have_the_scores_of_the_network(seed, size, reach):
    parent, word = make_trie(np.random.default_rng(seed), size, reach)
    module = make_module(seed % 3)
    lm = make_lm(module)
    expected = score_by_sentences(module, parent, word)
    np.testing.assert_allclose(lm.score_trie(parent, word), expected, atol=1e-4)
    np.testing.assert_allclose(stepwise(lm, parent, word), expected, atol=1e-4)
    assert lm.num_slots == 0


@pytest.mark.parametrize("nodes", [1, 3, None])
def test_blocks_of_any_size_give_the_same_scores(nodes, monkeypatch):
    parent, word = make_trie(np.random.default_rng(1), 60)
    expected = make_lm().score_trie(parent, word)
    monkeypatch.setattr(attention.AttentionLM, "_block_nodes", nodes)
    monkeypatch.setitem(attention.BATCH_TOKENS, "cpu", 20)
    np.testing.assert_allclose(make_lm().score_trie(parent, word), expected, atol=1e-5)
    np.testing.assert_allclose(make_lm(max_batch=2).score_trie(parent, word), expected, atol=1e-5)


def test_every_history_of_a_trie_is_read_once(monkeypatch):
    monkeypatch.setattr(attention.AttentionLM, "_block_nodes", 7)
    parent, word = make_trie(np.random.default_rng(3), 60)
    lm = make_lm()
    nodes_read = [
        node for nodes, _ in lm._forest_outputs(lm._root(), Forest.of(parent), word) for node in nodes.tolist()
    ]
    assert sorted(nodes_read) == list(range(-1, 60))


def test_gathering_in_pieces_gives_the_same_scores(monkeypatch):
    parent, word = make_trie(np.random.default_rng(2), 60)
    expected = stepwise(make_lm(), parent, word)
    monkeypatch.setattr(attention, "GATHER_BYTES", 500)
    np.testing.assert_allclose(stepwise(make_lm(), parent, word), expected, atol=1e-5)
    np.testing.assert_allclose(stepwise(make_lm(max_batch=1), parent, word), expected, atol=1e-5)


def test_scores_do_not_depend_on_the_batch():
    lm = make_lm()
    long_slot = lm.start(1)
    for number in range(9):
        long_slot = lm.advance(long_slot, np.array([3 + number]))
    short_slot = lm.advance(lm.start(1), np.array([5]))
    word = np.array([7])
    expected = np.concatenate(
        (lm.logprob(lm.advance(long_slot, word), word), lm.logprob(lm.advance(short_slot, word), word))
    )
    slots = lm.advance(np.concatenate((long_slot, short_slot)), np.array([7, 7]))
    np.testing.assert_allclose(lm.logprob(slots, np.array([7, 7])), expected, atol=1e-5)


def test_slots_are_kept_while_longer_histories_use_them():
    lm = make_lm()
    root = lm.start(2)
    the = lm.advance(root[[0, 0]], np.array([3, 4]))
    cat = lm.advance(the[:1], np.array([5]))
    expected = lm.logprob(lm.advance(cat, np.array([6])), np.array([7]))
    lm.release(root)
    lm.release(the)
    extra_slots = lm.advance(lm.start(600), np.full(600, 8))  # would overwrite slots that are released too early
    np.testing.assert_array_equal(lm.logprob(lm.advance(cat, np.array([6])), np.array([7])), expected)
    # 600 starts and their continuations, two continuations of `cat`, and <s> the cat
    assert lm.num_slots == 1200 + 2 + 3
    lm.release(extra_slots)
    assert lm.num_slots == 600 + 2 + 3
    with pytest.raises(AssertionError, match="released twice"):
        lm.release(the[1:])


def test_a_failing_step_leaks_no_slots(monkeypatch):
    lm = make_lm()
    root = lm.start(3)
    with monkeypatch.context() as patch:
        patch.setattr(lm, "_read", lambda *_: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(MemoryError):
            lm.advance(root, np.array([3, 4, 5]))
    assert lm.num_slots == 3
    lm.release(lm.advance(root, np.array([3, 4, 5])))
    lm.release(root)
    assert lm.num_slots == 0


def test_probabilities_sum_to_one_if_normalised():
    all_words = np.arange(len(WORDS), dtype=np.int32)
    for lm, is_normalised in ((make_lm(), True), (make_lm(normalize=False), False)):
        slot = lm.advance(lm.start(1), np.array([4]))
        total = np.exp(lm.logprob(np.repeat(slot, len(WORDS)), all_words).astype(np.float64)).sum()
        assert (total == pytest.approx(1, abs=1e-5)) == is_normalised
        trie = np.concatenate(([-1], np.zeros(len(WORDS)))).astype(np.int32), np.concatenate(([4], all_words))
        total = np.exp(lm.score_trie(*trie)[1:].astype(np.float64)).sum()
        assert (total == pytest.approx(1, abs=1e-5)) == is_normalised


def test_a_trie_may_be_flat_or_a_single_chain():
    lm = make_lm()
    leaves = np.full(3, -1, np.int32), np.array([3, 4, 1], np.int32)
    np.testing.assert_allclose(lm.score_trie(*leaves), lm.logprob(lm.start(3), leaves[1]), atol=1e-5)
    chain = np.arange(-1, 299, dtype=np.int32), np.random.default_rng(0).integers(3, 40, 300).astype(np.int32)
    chain[1][-1] = lm.eos
    total = sentence_logprobs(lm, [chain[1][:-1].tolist()])[0]
    assert lm.score_trie(*chain).sum(dtype=np.float64) == pytest.approx(total, abs=1e-3)
    np.testing.assert_allclose(score_trie(lm, *chain), stepwise(lm, *chain), atol=1e-4)


# Tries in depth-first order


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 9), st.integers(1, 40))
def test_forest_blocks_keep_all_paths_and_contain_each_node_once(draws, size, max_tokens):
    parent = np.array([draw % (node + 1) - 1 for node, draw in enumerate(draws)], np.int64)

    def path_to(node):
        return [] if node < 0 else [*path_to(parent[node]), node]

    forest = Forest.of(parent)
    for blocks in (forest.blocks(size), forest.sentences()):
        nodes_read = []
        for block in blocks:
            block_nodes = forest.node[block.rank].tolist()
            for place in range(block.num_above, len(block_nodes)):
                node = block_nodes[place]
                path = [forest.node[rank] for rank in block.rank if rank <= block.rank[place] < forest.end[rank]]
                assert path == path_to(node)
                assert forest.depth[block.rank[place]] == len(path)
                nodes_read.append(node)
        assert sorted(nodes_read) == list(range(len(parent)))
        groups = batches(blocks, max_tokens)
        assert sorted(id(block) for group in groups for block in group) == sorted(map(id, blocks))
        for group in groups:
            assert len(group) == 1 or pad(group, -2).size <= max_tokens
    for block in forest.sentences():
        assert forest.node[block.rank].tolist() == path_to(forest.node[block.rank[-1]])


# Training and checkpoints


SMALL = toy(architecture="transformer", hidden=32, heads=2, epochs=10, learning_rate=1e-2, samples=0)


@pytest.fixture
def texts(tmp_path):
    random = np.random.default_rng(0)
    for name, count in (("train.txt", 200), ("dev.txt", 40)):
        verbs = random.integers(8, size=count)
        lines = [f"subject{random.integers(9)} verb{verb} object{verb}" for verb in verbs]
        (tmp_path / name).write_text("\n".join(lines))
    return tmp_path / "train.txt", tmp_path / "dev.txt"


def test_a_transformer_is_trained_stored_and_loaded(tmp_path, texts):
    result = train.train(*texts, tmp_path / "lm.pt", SMALL)
    assert result.perplexity < 4.5  # the minimum is (9 · 8) ** (1 / 4) = 2.9
    stored = checkpoint.read(tmp_path / "lm.pt")
    assert isinstance(stored.module, TransformerLanguageModel)
    assert stored.card["architecture"] == "transformer"
    dev = text.encode(texts[1], stored.words)
    assert objective.perplexity(stored.module, dev) == pytest.approx(result.perplexity, rel=1e-6)
    lm = load(tmp_path / "lm.pt")
    assert isinstance(lm, TransformerLM)
    sentences = [[lm.vocabulary.id(word) for word in line.split()] for line in texts[1].read_text().splitlines()]
    total = sentence_logprobs(lm, sentences).sum()
    assert np.exp(-total / sum(len(sentence) + 1 for sentence in sentences)) == pytest.approx(result.perplexity, 1e-4)


def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path, texts):
    def stop(report):
        if report.step >= 16:
            raise KeyboardInterrupt

    options = dataclasses.replace(SMALL, dropout=0.2, epochs=4)
    train.train(*texts, tmp_path / "whole.pt", options)
    with pytest.raises(KeyboardInterrupt):
        train.train(*texts, tmp_path / "halves.pt", options, stop)
    train.train(*texts, tmp_path / "halves.pt", dataclasses.replace(options, resume=True))
    expected, state = (checkpoint.read(tmp_path / name).module.state_dict() for name in ("whole.pt", "halves.pt"))
    assert all(torch.equal(weight, state[name]) for name, weight in expected.items())


def test_the_command_trains_a_transformer(tmp_path, texts, ninja):
    sizes = ["--embedding", 8, "--hidden", 8, "--heads", 2, "--layers", 1, "--min-count", 1, "--epochs", 0.1]
    command = ["train", texts[0], "--dev", texts[1], "-o", tmp_path / "lm.pt", "--architecture", "transformer"]
    code, _, stderr = ninja(*command, *sizes)
    assert code == 0, stderr
    assert load(tmp_path / "lm.pt").config == Config(28, 8, 8, 1, 2, 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "gru"}, "architecture is 'gru', but must be one of lstm, transformer"),
        ({"heads": 0}, "heads is 0, but must be 1 or more"),
        ({"heads": 3}, r"embedding is 16, but must be a multiple of 2 \* heads = 6"),
    ],
)
def test_invalid_transformer_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        dataclasses.replace(SMALL, **options)


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("heads", 3, "the sizes in the configuration are implausible"),
        ("heads", 2**60, "heads in the configuration is 1152921504606846976, which is implausible"),
        ("embedding", 32, "but the configuration needs"),
    ],
)
def test_an_inconsistent_checkpoint_is_refused(tmp_path, entry, value, message):
    checkpoint.save(checkpoint.Checkpoint(make_module(), WORDS, {}), tmp_path / "lm.pt")
    content = torch.load(tmp_path / "lm.pt", weights_only=True)
    content["config"][entry] = value
    torch.save(content, tmp_path / "lm.pt")
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "lm.pt")


def test_vocabulary_and_network_must_fit():
    with pytest.raises(ModelError, match="the vocabulary has 3 words, but the network scores 40"):
        TransformerLM(make_module(), SymbolTable(zip(text.SPECIAL, range(3), strict=True)))
    with pytest.raises(ModelError, match="the vocabulary does not contain </s>"):
        TransformerLM(make_module(), SymbolTable(zip(["<s>", "x", *WORDS[2:]], range(40), strict=True)))
    with pytest.raises(OptionError, match="max_batch is 0"):
        make_lm(max_batch=0)
