"""Context as a pipeline stage and as a command, by itself and before rescoring."""

import json

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lattice_files import write_all
from reference_context import SlowContext, open_models, phrase_weights
from reference_graph import costs_of, paths, words_of
from reference_ngram import SlowNgram, write_arpa
from strategies import lattices

from ninja import read
from ninja.context import Entities
from ninja.context.options import ContextOptions
from ninja.context.settings import Augmentation, Context
from ninja.context.sound.pronunciation import Pronouncer
from ninja.context.stage import Contextual
from ninja.errors import FormatError, InputError, OptionError, VocabularyError
from ninja.graph import best_path, from_arcs
from ninja.lattice.symbols import SymbolTable
from ninja.rescoring import ModelFiles, Rescorer, RescoreReport
from ninja.rescoring.algorithms import RescoreOptions

TABLE = SymbolTable.from_words(["<eps>", "a", "b", "c"])
UNIGRAM = SlowNgram(1, {("<s>",): (-99.0, 0.0), ("</s>",): (-0.5, 0.0), ("<unk>",): (-1.25, 0.0), ("a",): (-0.75, 0.0)})
CLASSES = SlowNgram(1, {**UNIGRAM.ngrams, ("@name",): (-0.5, 0.0), ("@place",): (-1.0, 0.0)})


def choice(key, first=0.0, second=1.0):
    """Return a lattice of "a c" and "b c"; by default "a c" has the lower cost."""
    ids = TABLE.ids(["a", "b", "c"])
    return from_arcs(key, [0, 0, 1], [1, 1, 2], ids, [first, second, 0.0], finals={2: 0.0}, words=TABLE)


@pytest.fixture
def write_file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def archive(tmp_path, write_file):
    write_all(tmp_path / "lat.ark", (choice(key) for key in ("one", "two")))
    write_file("words.txt", "".join(f"{word} {number}\n" for word, number in TABLE))
    return tmp_path / "lat.ark"


def best_words(lattice):
    return " ".join(lattice.words.spell(best_path(lattice).words))


def test_utterances_are_boosted_by_their_own_phrases(write_file):
    entities = write_file("e.jsonl", '{"utt": "one", "@name": ["b"]}\n{"utt": "two", "@name": ["c c"]}\n')
    stage = Contextual(Context(entities, options=ContextOptions(keyword_boost=2.0)))
    texts = {key: best_words(lattice) for key, lattice in stage([("one", choice("one")), ("two", choice("two"))])}
    assert texts == {"one": "b c", "two": "a c"}


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lattice=lattices(max_word=3, max_states=5),
    phrases=phrase_weights(negative=False),
    model=open_models,
    with_old=st.booleans(),
    with_class=st.booleans(),
    share=st.sampled_from([0.25, 0.5]),
)
def test_rescoring_with_context_agrees_with_slow_scores(
    write_file, lattice, phrases, model, with_old, with_class, share
):
    """Boosts have their full size; `ninja.context.booster` describes the shares of the language models."""
    classes, neural, old = write_file("c.arpa", write_arpa(model)), write_file("n.arpa", write_arpa(UNIGRAM)), None
    if with_old:
        old = write_file("old.arpa", write_arpa(CLASSES))
    entities = {
        cls or "phrases": [{"text": " ".join(p), "weight": w} for p, w in m.items()] for cls, m in phrases.items()
    }
    path = write_file("e.json", json.dumps(entities))
    options = RescoreOptions(lm_weight=share, unk_penalty=0.25, max_hyps=0, max_active=0, beam=np.inf, max_unknown=1.0)
    boosted = ContextOptions(keyword_boost=1.5, class_boost=0.5, max_tokens=0, class_weight=0.5, unk_penalty=0.25)
    context = Context(path, classes if with_class else None, options=boosted)
    models = ModelFiles((neural,), old)
    stage = Rescorer(models, options, context=Contextual.before(context, models, options))
    lattice = lattice.with_words(TABLE)
    ((_, rescored),) = stage([(lattice.key, lattice)])

    old_slow = CLASSES if with_old else None
    grammar = SlowContext(
        phrases if any(phrases.values()) else {},
        model if with_class else None,
        old_slow if with_class else None,
        1.5,
        0.5,
        0.5,
        0.25,
        1 - share,
    )
    plain = SlowContext({}, UNIGRAM, None, class_weight=1.0, unk_penalty=0.25)  # scores of the model without context
    old_plain = SlowContext({}, CLASSES, None, class_weight=1.0, unk_penalty=0.25)
    expected = {}
    for path in paths(lattice):
        graph, acoustic = costs_of(lattice, path)
        words = TABLE.spell(words_of(lattice, path))
        graph_share = 1.0 if with_old else (1 - share) * (0.5 if with_class else 1.0)
        cost = graph_share * graph - grammar.score(words) - share * plain.score(words)
        if with_old:
            cost += share * old_plain.score(words)
        key = words_of(lattice, path)
        expected[key] = min(expected.get(key, np.inf), cost + 0.1 * acoustic)
    actual = {}
    for path in paths(rescored):
        graph, acoustic = costs_of(rescored, path)
        key = words_of(rescored, path)
        actual[key] = min(actual.get(key, np.inf), graph + 0.1 * acoustic)
    assert actual.keys() == expected.keys()
    for key, cost in actual.items():
        assert cost == pytest.approx(expected[key], abs=1e-3)


def test_stage_reports_notes_about_its_files_once(write_file):
    entities = write_file("e.json", '{"@name": ["b", "zebra", "b"], "@artist": ["a"]}')
    messages = []
    report = RescoreReport(on_note=messages.append)
    stage = Contextual(Context(entities, write_file("c.arpa", write_arpa(CLASSES))))
    list(stage([("one", choice("one")), ("two", choice("two"))], report))
    notes = report.notes
    assert len(notes) == 4  # each note occurs once, not per lattice
    assert "'b'" in notes[0]
    assert "@name: 1 of 2 phrases has words that are not in the symbol table: 'zebra'" in notes[1]
    assert (
        f"{write_file('c.arpa', write_arpa(CLASSES))}: the class @place is not used, because {entities} contains no "
        "phrases for it" == notes[2]
    )
    assert notes[3].endswith("c.arpa has no class @artist; its phrases are boosted after any history")


def test_class_model_without_classes_is_reported(write_file):
    report = RescoreReport(on_note=[].append)
    context = Context(write_file("e.json", '{"@name": ["b"]}'), write_file("c.arpa", write_arpa(UNIGRAM)))
    list(Contextual(context)([("one", choice("one"))], report))
    assert report.notes == [
        f"{context.class_lm}: the model has no classes such as @name, $name or <name>; phrases are boosted after any "
        "history"
    ]


def test_phrases_of_a_missing_class_are_boosted_after_any_history(write_file):
    options = ContextOptions(keyword_boost=20.0)
    context = Context(
        write_file("e.json", '{"@artist": ["b"]}'), write_file("c.arpa", write_arpa(CLASSES)), options=options
    )
    ((_, lattice),) = Contextual(context)([("one", choice("one"))])
    assert best_words(lattice) == "b c"


def test_invalid_lattice_is_skipped_and_reported(write_file):
    invalid = choice("bad").with_words(None)
    stage = Contextual(Context(write_file("e.json", '{"@name": ["b"]}')))
    failures = []
    assert [
        key for key, _ in stage([("bad", invalid), ("one", choice("one"))], RescoreReport(on_error=failures.append))
    ] == ["one"]
    assert str(failures[0]) == (
        "key 'bad': the lattice has no symbol table; specify the words.txt with which it was created"
    )
    with pytest.raises(VocabularyError):
        list(stage([("bad", invalid)]))


def test_damaged_entity_file_ends_the_run_despite_on_error(write_file, tmp_path):
    with pytest.raises(InputError):
        list(
            Contextual(Context(tmp_path / "none.json"))(
                [("one", choice("one"))], RescoreReport(on_error=lambda error: None)
            )
        )
    stage = Contextual(Context(write_file("e.jsonl", '{"utt": "one", "color": ["b"]}\n')))
    with pytest.raises(FormatError, match="color"):
        list(stage([("one", choice("one"))], RescoreReport(on_error=lambda error: None)))


def test_lattices_may_have_different_symbol_tables(write_file):
    stage = Contextual(Context(write_file("e.json", '{"@name": ["b"]}'), options=ContextOptions(keyword_boost=2.0)))
    reordered = SymbolTable([("<eps>", 0), ("b", 1), ("a", 2), ("c", 3)])
    swapped = choice("two", 1.0, 0.0).with_words(reordered)
    texts = [best_words(lattice) for _, lattice in stage([("one", choice("one")), ("two", swapped)])]
    assert texts == ["b c", "b c"]


def test_backward_rescoring_and_lm_weight_of_one_raise_option_error(write_file):
    context = Context(write_file("e.json", '{"@name": ["b"]}'))
    backward = RescoreOptions(backward=True)
    with pytest.raises(OptionError, match="single pass with forward language models"):
        Contextual.before(context, ModelFiles(), backward)
    with pytest.raises(OptionError, match="lm_weight is 1, so rescoring would remove"):
        list(Contextual(context, None, 1.0)([("one", choice("one"))]))


def test_context_command_writes_lattices_and_reports_matches(ninja, archive, write_file, tmp_path):
    entities = write_file("e.jsonl", '{"utt": "one", "@name": ["b c"]}\n')
    out, report = tmp_path / "out.ark", tmp_path / "report.jsonl"
    code, _, errors = ninja(
        "context", archive, "--entities", entities, "--keyword-boost", 2, "-o", out, "--report", report
    )
    assert code == 0, errors
    assert "2 lattices" in errors
    texts = {key: best_words(lattice) for key, lattice in read(out, words=TABLE)}
    assert texts == {"one": "b c", "two": "a c"}
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert lines == [
        {
            "utt": "one",
            "text": "b c",
            "phrases": [{"class": "@name", "text": "b c", "begin": 0, "end": 2}],
            "added": [],
        },
        {"utt": "two", "text": "a c", "phrases": [], "added": []},
    ]


def test_worker_processes_write_the_bytes_of_one_process(ninja, archive, write_file, tmp_path):
    entities = write_file("e.jsonl", '{"utt": "one", "@name": ["b"]}\n')
    outs = [tmp_path / f"{jobs}.ark" for jobs in (1, 2)]
    for jobs, out in enumerate(outs, start=1):
        assert ninja("context", archive, "--entities", entities, "-o", out, "--jobs", jobs)[0] == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()


@pytest.mark.parametrize("verb", ["context", "rescore"])
def test_worker_processes_print_the_messages_of_one_process(ninja, archive, write_file, tmp_path, verb):
    entities = write_file("e.jsonl", '{"utt": "one", "@name": ["b zed"], "@place": ["c"]}\n')
    model, lexicon = write_file("c.arpa", write_arpa(CLASSES)), write_file("lex.txt", "a AH\nb B\nc S IY\nzed Z EH D\n")
    options = ["--entities", entities, "--class-lm", model, "--old-lm", model, "--augment", "--lexicon", lexicon]
    options += ["--max-unknown", 1] + (["--rnnlm", model] if verb == "rescore" else [])
    stderr_lines, tables = [], []
    for jobs in (1, 2):
        names = ["--words-out", tmp_path / f"words{jobs}.txt", "-o", tmp_path / f"{jobs}.ark"]
        code, _, errors = ninja(verb, archive, *options, *names, "--jobs", jobs)
        assert code == 0, errors
        run_specific = ("lattices, ", "wrote the scales to ")
        stderr_lines.append({line for line in errors.splitlines() if not any(text in line for text in run_specific)})
        tables.append((tmp_path / f"words{jobs}.txt").read_text())
    assert stderr_lines[0] == stderr_lines[1]
    assert any("unknown to the class language model" in line for line in stderr_lines[0])
    assert any("phrases for 1 of 2 lattices" in line for line in stderr_lines[0])
    assert tables[0] == tables[1]
    assert "zed 4\n" in tables[0]
    resumption = ["--words-out", tmp_path / "again.txt", "-o", tmp_path / "1.ark", "--resume"]
    assert ninja(verb, archive, *options, *resumption)[0] == 0
    assert (tmp_path / "again.txt").read_text() == tables[0]


def test_entities_without_matching_keys_are_reported(ninja, archive, write_file, tmp_path):
    entities = write_file("e.jsonl", '{"utt": "three", "@name": ["b"]}\n')
    code, _, errors = ninja("context", archive, "--entities", entities, "-o", tmp_path / "out.ark")
    assert code == 0
    assert "none of 2 lattices has phrases; check that their keys match the ids in the phrase list" in errors


def test_conflicting_output_files_are_a_usage_error(ninja, archive, write_file, tmp_path):
    entities = write_file("e.json", '{"@name": ["b"]}')
    before = entities.read_bytes()
    for names, message in (
        (["-o", "O", "--report", "O"], "two outputs would be written to this file"),
        (["-o", "-", "--report", "-"], "two outputs would be written to this file"),
        (["-o", "O", "--report", entities], "is an input and would be overwritten"),
        (["-o", archive], "is an input and would be overwritten"),
        (["-o", "O", "--report", tmp_path / "none" / "r"], "create it first"),
    ):
        options = [tmp_path / "out.ark" if argument == "O" else argument for argument in names]
        code, _, errors = ninja("context", archive, "--entities", entities, *options)
        assert code == 2
        assert message in errors
        assert not (tmp_path / "out.ark").exists()
    assert entities.read_bytes() == before


def test_old_model_with_too_many_unknown_words_is_refused(ninja, archive, write_file, tmp_path):
    entities, model = write_file("e.json", '{"@name": ["b"]}'), write_file("c.arpa", write_arpa(CLASSES))
    options = ["--entities", entities, "--class-lm", model, "--old-lm", model, "-o", tmp_path / "out.ark"]
    code, _, errors = ninja("context", archive, *options)
    assert code == 1
    assert "unknown to the old language model" in errors
    assert "more than --max-unknown = 50%" in errors
    assert ninja("context", archive, *options, "--max-unknown", 1)[0] == 0


def test_context_and_rescorer_share_an_old_model_that_scores_added_words(write_file):
    entities, lexicon = (
        write_file("e.json", '{"@name": ["zed"]}'),
        write_file("lex.txt", "a Z EH D\nb B\nc S IY\nzed Z EH D\n"),
    )
    old = SlowNgram(1, {(word,): (-1.0, 0.0) for word in ("<s>", "</s>", "a", "b", "c")})
    models = ModelFiles((), write_file("old.arpa", write_arpa(old)))
    options = RescoreOptions(lm_weight=0.5, max_unknown=1.0, normalizer="none")
    context = Context(entities, augmentation=Augmentation(lexicon=lexicon))
    contextual = Contextual.before(context, models, options)
    rescorer = Rescorer(models, options, context=contextual)
    ((_, lattice),) = rescorer([("one", choice("one"))])
    assert "zed" in {lattice.words.word(number) for number in lattice.word.tolist()}
    assert rescorer.old_lm is contextual.old_model


def test_map_words_case_finds_words_in_another_case(write_file):
    cased_model = SlowNgram(1, {**CLASSES.ngrams, ("B",): (-0.25, 0.0), ("C",): (-0.25, 0.0)})
    model, entities = write_file("c.arpa", write_arpa(cased_model)), write_file("e.json", '{"@name": ["a"]}')
    results = []
    for map_words in ((), ("case",)):
        stage = Contextual(Context(entities, model, options=ContextOptions(map_words=map_words)))
        report = RescoreReport()
        results.append(list(stage([("one", choice("one"))], report)))
        assert report.coverages[0].unknown_words == (0 if map_words else 2)
    assert best_path(results[1][0][1]).cost() < best_path(results[0][0][1]).cost()


def test_rescore_command_boosts_entities(ninja, archive, write_file, tmp_path):
    entities, model = (
        write_file("e.jsonl", '{"utt": "one", "@name": ["b"]}\n'),
        write_file("lm.arpa", write_arpa(UNIGRAM)),
    )
    out = tmp_path / "out.ark"
    options = ["--rnnlm", model, "--keyword-boost", 8, "--max-unknown", 1, "-o", out]
    code, _, errors = ninja("rescore", archive, "--entities", entities, *options)
    assert code == 0, errors
    assert {key: best_words(lattice) for key, lattice in read(out, words=TABLE)} == {"one": "b c", "two": "a c"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["context", "LAT", "--entities", "none.json"], 1, "none.json"),
        (["context", "LAT", "--entities", "E", "--old-lm", "x.arpa"], 2, "--old-lm requires --class-lm"),
        *(
            (["context", "LAT", "--entities", "E", *option], 2, f"{option[0]} can be used only with --class-lm or")
            for option in (["--unk-penalty", "1"], ["--map-words", "case"], ["--oov-score", "skip"])
        ),
        *(
            (
                ["context", "LAT", "--entities", "E", *models, "--max-unknown", "1"],
                2,
                "only with --class-lm and --old-lm",
            )
            for models in ([], ["--class-lm", "c.arpa"], ["--augment", "--old-lm", "x.arpa"])
        ),
        (
            ["context", "LAT", "--entities", "E", "--report", "r", "--jobs", "2"],
            2,
            "--report cannot be used with --resume or with --jobs above 1",
        ),
        (["context", "LAT", "--entities", "E", "--class-lm", "none.arpa"], 1, "none.arpa"),
        (["context", "LAT", "--entities", "E", "--max-tokens", "-1"], 2, "--max-tokens is -1"),
        (["context", "LAT"], 2, "--entities"),
        (["rescore", "LAT", "--class-lm", "c.arpa"], 2, "--class-lm can be used only with --entities"),
        (
            ["rescore", "LAT", "--max-tokens", "3", "--augment"],
            2,
            "--augment, --max-tokens can be used only with --entities",
        ),
        (["context", "LAT", "--entities", "E", "--lexicon", "l"], 2, "--lexicon can be used only with --augment"),
        (
            ["context", "LAT", "--entities", "E", "--augment-beam", "1"],
            2,
            "--augment-beam can be used only with --augment",
        ),
        (
            ["context", "LAT", "--entities", "E", "--class-boost", "1"],
            2,
            "--class-boost can be used only with --class-lm",
        ),
        (
            ["context", "LAT", "--entities", "E", "--augment", "--augment-place-weight", "2"],
            2,
            "--augment-place-weight can be used only with --class-lm",
        ),
        (
            ["rescore", "LAT", "--entities", "E", "--backward"],
            2,
            "context requires a single pass with forward language models",
        ),
    ],
)
def test_invalid_options_are_reported_in_one_line(ninja, archive, write_file, tmp_path, arguments, code, message):
    entities = write_file("e.json", '{"@name": ["b"]}')
    names = {"LAT": archive, "E": entities, "r": tmp_path / "r"}
    exit_code, _, errors = ninja(*(names.get(argument, argument) for argument in arguments), "-o", tmp_path / "out.ark")
    assert exit_code == code
    assert message in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out.ark").exists()


@pytest.mark.parametrize(("normalizer", "grows"), [("none", True), ("basic", True), ("basic", False)])
def test_phrases_of_a_submitted_lattice_may_have_new_words_and_letters(normalizer, grows):
    words = SymbolTable.from_words(["<eps>", "w1", "w2kati"])
    words = words.growing_copy() if grows else words
    lattice = from_arcs("a", [0, 1], [1, 2], [1, 2], [1.0, 1.0], finals={2: 0.0}, words=words)
    stage = Contextual(Context(Entities.from_dict({}), augmentation=Augmentation(letters_only=True)))
    with Rescorer(FakeLM(), RescoreOptions(normalizer=normalizer, max_unknown=1.0), context=stage) as rescorer:
        result = rescorer.submit(lattice, {"": ["w2katy"]}).result()
    assert "w2katy" in result.words.spell(result.word)


def test_growing_table_with_gaps_is_bound_again_only_after_growth():
    words = SymbolTable([("<eps>", 0), ("w1", 1), ("w2", 50)]).growing_copy()
    stage = Contextual(Context(Entities.from_dict({"": ["w1"]})))
    tracker = stage.bind(words, RescoreReport(), 50)
    assert stage.bind(words, RescoreReport(), 50) is tracker
    [new] = words.intern(["w3"])
    assert stage.bind(words, RescoreReport(), new) is not tracker


def test_pronunciations_are_read_once_for_a_growing_table(monkeypatch):
    readings = []

    def english(lexicon):
        readings.append(lexicon)
        return Pronouncer({"katy": ["K EY T IY"], "kati": ["K AA T IY"]})

    monkeypatch.setattr(Pronouncer, "english", english)
    words = SymbolTable.growing()
    stage = Contextual(Context(Entities.from_dict({"": ["katy"]}), augmentation=Augmentation(), normalizer="none"))
    for word in ("kati", "new"):
        number = words.intern([word])
        lattice = from_arcs(word, [0], [1], number, [0.0], finals={1: 0.0}, words=words)
        list(stage([(word, lattice)]))
        assert [added.phrase for added in stage.added] == (["katy"] if word == "kati" else [])
    assert readings == [None]
