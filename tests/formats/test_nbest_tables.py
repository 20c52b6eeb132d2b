"""Tables of Parquet and Arrow are read, and written as Parquet with their other columns."""

import datetime
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_files import LETTERS
from lattice_files import write_all

import ninja as package
from ninja.errors import DependencyError, FormatError, LatticeError, SymbolError
from ninja.formats.format import HEAD, by_mark
from ninja.graph import lattice_nbest
from ninja.lattice.nbest import NBest, sentence

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = {
    "id": ["a", "b"],
    "nbest": [
        [{"text": " Hi there.", "score": -1.0, "tag": 7}, {"text": " Hi their.", "score": -2.0, "tag": 8}],
        [{"text": " Yes!", "score": -0.5, "tag": 9}],
    ],
    "text": ["hi there", " Yes!"],
    "audio": [b"\0\1", None],
    "when": [datetime.datetime(2026, 1, 2), None],
}
WORDS = [{"word": "x", "start": 0.5, "end": 1.0}, {"word": "y", "start": 1.0, "end": 1.25}]
TABLES = {
    "structs": ROWS,
    "strings": {"key": ["a", "b"], "hyps": [["x y", "x"], ["z"]], "score": [[-1.0, -2.5], [-0.5]], "n": [1, 2]},
    "texts": {"utt_id": ["a", "b"], "pred_text": ["Hi there.", ""], "duration": [1.5, None]},
    "models": {"id": ["a"], "nbest": [[{"text": "x", "am_score": -31.0, "lm_score": -4.0}]]},
    "words": {
        "id": ["a"],
        "nbest": [[{"text": "x y", "score": -1.0, "words": WORDS}]],
    },
}  # fmt: skip


def write_table(path, items):
    write_all(path, items)
    return pq.read_table(path)


def lattices(path, **options):
    return [lattice for _, lattice in package.read(path, **options)]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("form", ["parquet", "arrow", "feather"])
def test_a_table_is_detected_and_written_back_with_all_columns(tmp_path, name, form):
    table, path = pa.table(TABLES[name]), tmp_path / "x"
    if form == "parquet":
        pq.write_table(table, path)
    else:
        feather.write_feather(table, path, compression="uncompressed" if form == "arrow" else "lz4")
    assert by_mark(path.read_bytes()[:HEAD]).name == "parquet"
    write_all(tmp_path / "y.parquet", lattices(path), lossy="refuse")
    assert pq.read_table(tmp_path / "y.parquet").equals(table)


def test_native_files_are_not_detected_as_tables(tmp_path):
    ((_, lattice),) = package.read(_json(tmp_path, {"key": "a", "nbest": [{"text": "x", "score": -1}]}))
    write_all(tmp_path / "x.arrow", [lattice])
    assert by_mark((tmp_path / "x.arrow").read_bytes()[:HEAD]).name == "native"


def _json(folder, *entries):
    (folder / "x.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder / "x.jsonl"


def test_costs_words_and_times_agree_with_json(tmp_path):
    for name in ("structs", "models", "words"):
        pq.write_table(pa.table(TABLES[name]), tmp_path / "x.parquet")
        rows = pa.table({key: TABLES[name][key] for key in ("id", "nbest")}).to_pylist()
        path = _json(tmp_path, *({"key": row["id"], "nbest": row["nbest"]} for row in rows))
        for from_table, from_json in zip(lattices(tmp_path / "x.parquet"), lattices(path), strict=True):
            assert from_table.identical(from_json)
            assert list(from_table.words) == list(from_json.words)


def test_new_hypotheses_change_only_their_columns(tmp_path):
    pq.write_table(pa.table(ROWS), tmp_path / "x.parquet")
    new_lists = []
    for lattice in lattices(tmp_path / "x.parquet"):
        nbest = lattice_nbest(lattice, 2)
        best = sentence(("Yes?",), 3.0) if nbest.key == "b" else nbest.hypotheses[1]
        new_lists.append(replace(nbest, hypotheses=(best,)))
    table = write_table(tmp_path / "y.parquet", new_lists)
    expected = {key: list(values) for key, values in ROWS.items()}
    expected["nbest"] = [
        [{"text": " Hi their.", "score": -2.0, "tag": 8}],
        [{"text": "Yes?", "score": -3.0, "tag": None}],
    ]
    expected["text"] = ["hi there", "Yes?"]  # the first text is a reference, the second was the best hypothesis
    assert table.to_pydict() == expected
    assert table.schema.equals(pa.table(ROWS).schema)


def test_a_text_without_scores_has_zero_cost_and_can_be_replaced(tmp_path):
    pq.write_table(pa.table(TABLES["texts"]), tmp_path / "x.parquet")
    first, second = lattices(tmp_path / "x.parquet")
    assert not first.graph.any()
    assert not first.acoustic.any()
    assert second.num_arcs == 0
    changed = replace(lattice_nbest(first, 1), hypotheses=(sentence(("Hi", "you.")),))
    table = write_table(tmp_path / "y.parquet", [changed, second])
    assert table.to_pydict() == {**TABLES["texts"], "pred_text": ["Hi you.", ""]}


def test_a_word_with_a_space_is_refused(tmp_path):
    with pytest.raises(SymbolError, match=r"^key 'u': 'a b' cannot be written, because words are separated"):
        write_table(tmp_path / "y.parquet", [NBest("u", (sentence(("a b",)),))])


def test_costs_without_a_column_are_reported(tmp_path):
    pq.write_table(pa.table(TABLES["texts"]), tmp_path / "x.parquet")
    nbest = lattice_nbest(lattices(tmp_path / "x.parquet")[0], 1)
    with package.write(tmp_path / "y.parquet") as output:
        output.write(replace(nbest, hypotheses=(sentence(("x",), 1.0, 2.0),)))
    assert set(output.lost) == {"graph costs", "acoustic costs"}


def test_other_columns_are_copied_to_json_and_lost_in_slf(tmp_path, ninja):
    pq.write_table(pa.table(TABLES["texts"]), tmp_path / "x.parquet")
    assert ninja("convert", tmp_path / "x.parquet", "-o", tmp_path / "x.jsonl")[0] == 0
    entry = json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])
    assert (entry["utt_id"], entry["pred_text"], entry["duration"]) == ("a", "Hi there.", 1.5)
    code, _, err = ninja("convert", tmp_path / "x.parquet", "--to", "slf", "-o", tmp_path / "slf")
    assert (code, "other fields of the n-best list" in err) == (0, True)


words = st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=4).map(tuple)
costs = st.floats(-1e6, 1e6, width=32).map(lambda cost: cost + 0.0)
hypotheses = st.builds(sentence, words, costs, costs)
lists = st.lists(
    st.lists(hypotheses, min_size=1, max_size=3, unique_by=lambda hypothesis: hypothesis.words), min_size=1, max_size=4
)


@given(lists)
def test_tables_are_unchanged_after_write_and_read(tmp_path_factory, drawn_lists):
    path = tmp_path_factory.mktemp("tables") / "x.parquet"
    items = [NBest(f"utt{place}", tuple(drawn_hypotheses)) for place, drawn_hypotheses in enumerate(drawn_lists)]
    write_table(path, items)
    for lattice, item in zip(lattices(path), items, strict=True):
        result = lattice_nbest(lattice, 100)
        assert result.key == item.key
        assert {
            (hypothesis.words, hypothesis.graph_cost, hypothesis.acoustic_cost) for hypothesis in result.hypotheses
        } == {(hypothesis.words, hypothesis.graph_cost, hypothesis.acoustic_cost) for hypothesis in item.hypotheses}


def test_rows_of_several_batches_keep_their_order(tmp_path):
    keys = [f"utt{number}" for number in range(300)]
    pq.write_table(pa.table({"id": keys, "text": [f"word {number}" for number in range(300)]}), tmp_path / "x.parquet")
    assert [lattice.key for lattice in lattices(tmp_path / "x.parquet")] == keys
    table = write_table(tmp_path / "y.parquet", lattices(tmp_path / "x.parquet"))
    assert table.column("id").to_pylist() == keys


def test_bad_rows_are_reported_by_their_number(tmp_path):
    rows = {"id": ["a", None, "c", "a"], "nbest": [[["x"]], [["y"]], None, [["z"]]]}
    rows["nbest"] = [
        [{"text": "x", "score": -1.0}],
        [{"text": "y", "score": -1.0}],
        None,
        [{"text": None, "score": 1.0}],
    ]
    pq.write_table(pa.table(rows), tmp_path / "x.parquet")
    errors = []
    assert [key for key, _ in package.read(tmp_path / "x.parquet", on_error=errors.append)] == ["a"]
    assert [error.line for error in errors] == [2, 3, 4]
    assert "the field 'id' is missing or null; specify the field of the key" in str(errors[0])


BAD = {
    "no column of texts": (
        lambda: pa.table({"id": ["a"], "n": [1]}),
        r"the table has no column 'text' \(columns: 'id', 'n'\); specify the columns with --from parquet:key=NAME",
    ),
    "lattices": (
        lambda: pa.table({"key": ["a"], "arc_begin": [[0]]}),
        "in Parquet format, which cannot be memory-mapped",
    ),
    "no scores": (lambda: pa.table({"id": ["a"], "nbest": [["x", "y"]]}), "a hypothesis has neither 'score' nor"),
    "two columns with one name": (
        lambda: pa.table([pa.array(["a"]), pa.array(["x"]), pa.array(["y"])], names=["id", "text", "text"]),
        "two columns have the same name",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_tables_raise_format_error(name, tmp_path):
    make, message = BAD[name]
    pq.write_table(make(), tmp_path / "x.parquet")
    with pytest.raises(FormatError, match=message):
        lattices(tmp_path / "x.parquet")


def test_a_truncated_table_is_an_error(tmp_path):
    for name in ("x.parquet", "x.feather"):
        (pq.write_table if name == "x.parquet" else feather.write_feather)(pa.table(ROWS), tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2 * 1 + 700])
        with pytest.raises(FormatError, match="not a table, or damaged"):
            lattices(tmp_path / name)


def repeated_text_table(text, count):
    """Return a row with a list of one repeated string, which is encoded only once."""
    strings = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))
    return pa.table({"id": ["a"], "nbest": pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), strings)})


LARGE = {
    "nulls in a list": (
        lambda: pa.table(
            {"id": ["a"], "nbest": pa.ListArray.from_arrays(pa.array([0, 2_000_000]), pa.nulls(2_000_000))}
        ),
        r"'nbest(\.list\.element)?': too many values \(2000000\) for a file of \d+ bytes",
    ),
    "rows of nulls": (
        lambda: pa.table({"id": pa.nulls(2_000_000, pa.string()), "text": pa.nulls(2_000_000, pa.string())}),
        r"the table: too many values \(2000000\) for a file of \d+ bytes",
    ),
    "one string many times": (
        lambda: repeated_text_table("x" * 100_000, 1000),
        r"rows 1 to 1 of the column 'nbest': too many decoded bytes \(100000000\) for a file of \d+",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_table_with_an_extreme_compression_ratio_is_refused(name, tmp_path):
    make, message = LARGE[name]
    path = tmp_path / "x.parquet"
    pq.write_table(make(), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1 << 16
    with pytest.raises(FormatError, match=message):
        lattices(path)


def test_rows_of_arrow_without_bytes_are_refused(tmp_path):
    make, message = LARGE["nulls in a list"]
    feather.write_feather(make(), tmp_path / "x", compression="zstd")
    with pytest.raises(FormatError, match=message):
        lattices(tmp_path / "x")


def test_a_column_of_one_value_is_read(tmp_path):
    table = pa.table({"id": [f"u{row}" for row in range(5000)], "text": ["Yes."] * 5000, "split": ["train"] * 5000})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=700)
    assert [lattice.key for lattice in lattices(path)] == table["id"].to_pylist()


def test_rows_of_other_columns_are_not_joined(tmp_path):
    for name in ("structs", "texts"):
        pq.write_table(pa.table(TABLES[name]), tmp_path / f"{name}.parquet")
    first, *_ = lattices(tmp_path / "structs.parquet")
    second = lattices(tmp_path / "texts.parquet")[1]
    with package.write(tmp_path / "y.parquet") as output:
        output.write(first)
        message = "key 'b': the columns of the row differ from those of the first output row"
        with pytest.raises(LatticeError, match=message):
            output.write(second)


def test_column_names_can_be_set_by_options(tmp_path):
    pq.write_table(pa.table({"u": ["a"], "said": ["x y"], "text": ["z"]}), tmp_path / "x.parquet")
    (lattice,) = lattices(tmp_path / "x.parquet", format="parquet:key=u,text=said")
    assert (lattice.key, lattice.num_arcs) == ("a", 2)


def test_a_missing_pyarrow_raises_dependency_error(tmp_path, monkeypatch):
    pq.write_table(pa.table(ROWS), tmp_path / "x.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(DependencyError, match="pip install pyarrow"):
        lattices(tmp_path / "x.parquet")
