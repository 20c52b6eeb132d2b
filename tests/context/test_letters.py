"""Comparison of phrases by letters, for lists of any length: indices, hashes of letters, and the stage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.context.augmentation.augment import Augmenter
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities, Phrase, PhraseList
from ninja.context.options import ContextOptions
from ninja.context.retrieval import phrase_index
from ninja.context.retrieval.letter_grams import LetterGrams
from ninja.context.retrieval.phrase_index import PhraseIndex
from ninja.context.settings import Augmentation, Context
from ninja.context.sound.letters import EDIT, LetterPronouncer, letter_confusion
from ninja.context.stage import Contextual
from ninja.errors import ModelError, OptionError
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable
from ninja.rescoring import RescoreReport


def unit_vectors(count, seed=1, size=16):
    vectors = np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def slow_nearest(vectors, queries, count):
    return sorted(np.argsort(-(queries @ vectors.T).max(axis=0), kind="stable")[:count].tolist())


@given(st.integers(0, 999), st.integers(1, 40), st.integers(1, 200))
def test_short_lists_are_searched_exhaustively(seed, count, num_queries):
    vectors, queries = unit_vectors(30, seed), unit_vectors(num_queries, seed + 1)
    assert PhraseIndex(vectors).nearest(queries, count).tolist() == slow_nearest(vectors, queries, count)


@pytest.mark.parametrize("installed", [True, False])
def test_long_lists_are_searched_by_cells_or_exhaustively(monkeypatch, installed):
    pytest.importorskip("faiss")
    monkeypatch.setattr(phrase_index, "EXACT", 1000)
    if not installed:
        monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    vectors, queries = unit_vectors(3000), unit_vectors(40, 2)
    near = vectors[:: 3000 // 40][:40] + 0.05 * queries  # each query is similar to one phrase
    nearest = PhraseIndex(vectors).nearest(near, 60)
    assert len(nearest) == 60
    assert (np.diff(nearest) > 0).all()
    assert set(range(0, 3000, 75)) <= set(nearest.tolist())
    if not installed:
        assert nearest.tolist() == slow_nearest(vectors, near, 60)


def test_shared_letters_make_vectors_similar():
    words = ["торонто", "торрингтон", "горрингтон", "서울", "석울"]
    vectors = LetterGrams().vectors([""] * 6, [*map(tuple, words), ()])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 1, 1, 0], atol=1e-6)
    similar = vectors @ vectors.T
    assert similar[1, 2] > 0.6 > similar[0, 2]
    assert similar[3, 4] > similar[3, 0] + 0.2
    np.testing.assert_array_equal(vectors[:2], LetterGrams().vectors(["", "x"], [*map(tuple, words[:2])]))


def test_letters_are_compared_without_case_and_accents():
    pronouncer = LetterPronouncer()
    assert pronouncer.of("Élan-X's") == (tuple("elanxs"),)
    assert pronouncer.of("...") == ()
    assert pronouncer.of_phrase(Phrase("ab cd", pronunciations=("K AE",))) == [(("a", "b"), ("c", "d"))]
    costs = letter_confusion([PhraseList("", {"": (Phrase("ab"),)})], ["cd"])
    assert costs.distance("abcd", "acd") == costs.distance("abc", "abd") == EDIT


RUSSIAN = ["москва", "маскву", "в", "еду"]
TABLE = SymbolTable.from_words(["<eps>", *RUSSIAN])


def stage(texts, tmp_path, **options):
    augmentation = Augmentation(AugmentOptions(acoustic_scale=1.0, max_distance=0.3), letters_only=True, **options)
    names = tmp_path / "names.tsv"
    names.write_text("".join(f"@name\t{text}\n" for text in texts))
    lists = {"lists": {"a": {"file": str(names)}}, "all": {"lists": ["a"]}}
    entities = Entities.from_dict(lists, words=TABLE)
    contextual = Contextual(Context(entities, options=ContextOptions(keyword_boost=3.0), augmentation=augmentation))
    contextual.bind(TABLE, RescoreReport())
    return contextual


def recognised_lattice():
    words = TABLE.ids(["еду", "в", "маскву"])
    return from_arcs("u", [0, 1, 2], [1, 2, 3], words, [1.0, 1.0, 1.0], finals={3: 0.0}, words=TABLE)


@pytest.mark.parametrize("number", [3, 1500])
def test_names_of_any_script_are_found_by_letters(number, tmp_path):
    """Names are found in short lists and, by hashes of letters, in long lists of names with different sounds."""
    rng = np.random.default_rng(1)
    other_names = ["".join(chr(0xAC00 + code) for code in rng.integers(0, 11172, size=3)) for _ in range(number)]
    contextual = stage(["москва", *dict.fromkeys(other_names)], tmp_path)
    larger = contextual.add_context(recognised_lattice())
    assert [addition.phrase for addition in contextual.added] == ["москва"]
    assert contextual.added[0].replaced == ("маскву",)
    assert contextual.added[0].distance == pytest.approx(2 * EDIT)
    assert larger.num_arcs == 4


def test_letters_unknown_to_the_encoder_are_ignored_and_reported(tmp_path):
    torch = pytest.importorskip("torch")
    from ninja.context.deep.encoder import PhraseEncoder
    from ninja.context.deep.symbols import Symbols
    from ninja.models.entity_encoder import Config, EntityEncoder

    torch.manual_seed(1)

    def save_encoder(inputs):
        config = Config(7, 4, inputs=inputs, outputs="letters", hidden=8)
        path = tmp_path / f"{inputs}.pt"
        PhraseEncoder(EntityEncoder(config).eval(), Symbols("авкмо", ("A", "B")), {}).save(path)
        return path

    texts = ["москва", *(f"ыыы{chr(0x430 + number % 30)}{chr(0x430 + number // 30)}ъъъ" for number in range(1000))]
    contextual = stage(texts, tmp_path, context_model=save_encoder("letters"))
    assert "москва" in [
        addition.phrase for addition in contextual.add_context(recognised_lattice()) and contextual.added
    ]
    (note,) = (note for note in contextual._notes() if "ignores unknown letters" in note)
    assert "letters.pt: the model ignores unknown letters in " in note
    assert ": ы ъ" in note
    with pytest.raises(ModelError, match="reads only phones"):
        stage(texts, tmp_path, context_model=save_encoder("phones"))


def test_letters_only_with_a_lexicon_raises_option_error():
    with pytest.raises(OptionError, match="with a lexicon or a transition model"):
        Augmentation(letters_only=True, lexicon="lexicon.txt")


def test_empty_lists_add_nothing(tmp_path):
    contextual = stage([], tmp_path)
    assert contextual.add_context(recognised_lattice()).num_arcs == 3
    assert contextual.added == ()
    augment = Augmenter(TABLE, LetterPronouncer(), letter_confusion([], RUSSIAN))
    assert augment(recognised_lattice(), [])[1] == ()
    assert augment(recognised_lattice(), [PhraseList("", {})])[1] == ()
