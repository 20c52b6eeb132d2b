"""Tables of prompts, the options of the command, and models that read no prompts."""

import pytest
from fake_lm import FakeLM
from rescoring_cases import random_lattice

from ninja.cli.history import prompts_of
from ninja.cli.main import main
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.rescoring import Prompts, RescoreOptions, Rescorer, rescore


def test_from_table_reads_one_prompt_per_utterance(tmp_path):
    table = tmp_path / "prompts.tsv"
    table.write_text("id\tspeaker\tturn\nu1\tann\tHello.\\nB:\\\\n\nu2\tbob\t\n\n")
    assert Prompts.from_table(table, "turn").by_key == {"u1": "Hello.\nB:\\n", "u2": ""}
    assert Prompts.from_table(table, 2).of("u2") == "bob"
    with pytest.raises(LatticeError, match=r"key 'u3': this utterance is missing from the prompts in .*prompts\.tsv"):
        Prompts.from_table(table, 3).of("u3")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("u1\ta\nu1\tb\n", 2, "prompts.tsv:2: utterance 'u1' occurs twice"),
        ("u1\ta\nu2\n", 2, "prompts.tsv:2: expected at least 2 columns separated by tabs, found 1"),
        ("id\ttopic\n", "turn", "prompts.tsv:1: there is no column 'turn'; the header contains topic"),
        ("u1\ta\n", 1, "the prompt column is 1, but must be 2 or more"),
    ],
)
def test_from_table_refuses_invalid_tables_and_columns(tmp_path, text, column, message):
    (tmp_path / "prompts.tsv").write_text(text)
    with pytest.raises((FormatError, OptionError), match=message):
        Prompts.from_table(tmp_path / "prompts.tsv", column)


def test_a_prompt_is_a_text_or_the_content_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topic.txt").write_text("Cooking at home.\n")
    (tmp_path / "turns.tsv").write_text("id\tturn\nu1\tHello.\n")
    assert prompts_of(None, None) is None
    assert prompts_of("Cooking at home.", None) == Prompts("Cooking at home.")
    assert prompts_of("topic.txt", None) == Prompts("Cooking at home.\n")
    assert prompts_of("turns.tsv", "2") == Prompts(by_key={"id": "turn", "u1": "Hello."}, path="turns.tsv")
    assert prompts_of("turns.tsv", "turn") == Prompts(by_key={"u1": "Hello."}, path="turns.tsv")
    for prompt, column in (("topik.txt", None), ("folder/topic", None), ("some text", "2")):
        with pytest.raises(
            OptionError, match="no such file; --prompt must be an existing file, or several words of text"
        ):
            prompts_of(prompt, column)
    with pytest.raises(OptionError, match="--prompt-column requires --prompt"):
        prompts_of(None, "2")


def test_models_without_prompts_and_backward_models_are_refused():
    lattices = [("seed-1", random_lattice(1))]
    with pytest.raises(OptionError, match="no language model reads prompts; use a causal Hugging Face model"):
        rescore(lattices, FakeLM(), prompts=Prompts("a text"))
    with pytest.raises(OptionError, match="prompts cannot be used with a model that reads sentences backward"):
        rescore(lattices, FakeLM(), RescoreOptions(backward=True), prompts=Prompts("a text"))
    with pytest.raises(OptionError, match="this language model cannot read prompts"):
        FakeLM().prompt("a text")


def test_the_command_reads_prompts(tmp_path, capsys):
    pytest.importorskip("transformers")
    from tiny_hf import folder

    lists = tmp_path / "lists.jsonl"
    lists.write_text(
        '{"key": "u1", "nbest": [{"text": "the cat sat", "score": -1}, {"text": "the mat sat", "score": -1.5}]}\n'
    )
    (tmp_path / "turns.tsv").write_text("u1\tthe dog saw\n")
    common = ["rescore", str(lists), "--rnnlm", str(folder("gpt2")), "--acoustic-scale", "1"]
    outputs = []
    for number, prompt in enumerate(
        ([], ["--prompt", "the dog saw"], ["--prompt", str(tmp_path / "turns.tsv"), "--prompt-column", "2"])
    ):
        outputs.append(tmp_path / f"{number}.jsonl")
        assert main([*common, *prompt, "-o", str(outputs[-1])]) == 0, capsys.readouterr().err
    plain, text, table = (output.read_text() for output in outputs)
    assert text == table != plain
    # An output must not replace the table, which is an input.
    assert main([*common, "--prompt", str(tmp_path / "turns.tsv"), "-o", str(tmp_path / "turns.tsv")]) != 0
    assert (tmp_path / "turns.tsv").read_text() == "u1\tthe dog saw\n"


def test_a_rescorer_scores_submitted_lattices_after_the_prompt():
    pytest.importorskip("transformers")
    from tiny_hf import load_model

    lm = load_model("gpt2")
    lattice = random_lattice(3, 6, 1)
    options = RescoreOptions(max_unknown=1.0, unk_penalty=0.0)
    prompts = Prompts("the cat sat")
    with Rescorer(lm, options, prompts=prompts) as rescorer:
        submitted = rescorer.submit(lattice).result(60)
    [(_, result)] = rescore([(lattice.key, lattice)], lm, options, prompts=prompts)
    assert submitted.identical(result)
