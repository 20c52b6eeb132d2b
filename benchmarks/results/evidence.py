"""Make the tables of word error rates with intervals: real speech first, every system on every set.

    python -m benchmarks.results evidence [SHARED] [--only NAME] [--output docs/results.md]

SHARED holds ``data/real``, ``data/korean``, ``data/english`` and ``data/rnnlm``. All weights are chosen on the
development half of a set (``ninja tune``) and used on the test half. An interval is the 95% bootstrap interval over
speakers where they are known, else over utterances; p is that of a paired randomization test. Transcripts are stored in
a file: an interrupted run continues, and a transcript is made again when its model has changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import click

import ninja
from benchmarks.command import ROOT, SHARED, argument, command, option, output, path_option
from benchmarks.measure import set_torch_threads
from benchmarks.results.models import Row, with_weights
from benchmarks.tables import Cells, head, put, row, show, svg
from ninja.consensus import mbr_decode
from ninja.evaluate import Interval, bootstrap, lexical_texts, oracle_score, read_speakers, read_text, score
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.text import LexicalForms
from ninja.lm import LanguageModel, Mixture
from ninja.lm.ngram.kneser_ney import NgramOptions, train_ngram
from ninja.models import ENGLISH, ENGLISH_NGRAM
from ninja.rescoring import RescoreOptions, rescore
from ninja.rescoring.options import default_weights
from ninja.tune.first_pass import tune_first_pass
from ninja.tune.weights import tune_weights

Texts = dict[str, list[str]]
Rates = dict[str, tuple[float, Interval]]  # word error rate and its interval, by corpus and system
FIRST, KALDI = "first pass", "Kaldi's RNNLM"


@dataclass(frozen=True)
class Corpus:
    """A set of lattices with references; the speakers of one half are for development."""

    name: str
    folder: str  # below SHARED/data; with the folders dev and test, or whole
    acoustic_scale: float = 0.1  # to start tuning with, and of the first pass
    archive: str = "lat.ark.gz"
    words: str | None = "english/words.txt.gz"
    normalizer: str = "none"
    english: bool = True
    whole: bool = False  # one folder, whose speakers alternate between development and test

    def half(self, data: Path, name: str) -> Half:
        """Read the development or the test half."""
        folder = data / self.folder if self.whole else data / self.folder / name
        words = None if self.words is None else ninja.SymbolTable.read(data / self.words)
        text, speakers = read_text((folder / self.archive).with_name("text")), None
        if (folder / "utt2spk").exists():
            speakers = read_speakers(folder / "utt2spk")
        if self.whole:
            assert speakers is not None
            order = sorted(set(speakers.values()))
            text = {key: line for key, line in text.items() if order.index(speakers[key]) % 2 == (name == "test")}
        lattices = {key: lattice for key, lattice in ninja.read(folder / self.archive, words=words) if key in text}
        return Half(lattices, {key: text[key] for key in lattices}, speakers, self.normalizer)


@dataclass
class Half:
    """The lattices of one half, their references and speakers."""

    lattices: dict[str, Lattice]
    text: Texts
    speakers: dict[str, str] | None
    normalizer: str

    @cached_property
    def references(self) -> Texts:
        """The lexical words of the references."""
        return lexical(self.text, self.normalizer)


@dataclass(frozen=True)
class System:
    """A way from lattices to transcripts."""

    name: str
    model: Row | None = None
    options: RescoreOptions = field(default_factory=lambda: RescoreOptions(max_unknown=1.0))
    tuned: bool = True
    consensus: bool = False  # minimum Bayes risk decoding instead of the best path
    density_ratio: bool = False  # subtract a model trained on the recognised text of the development half

    def stamp(self) -> list[list[Any]]:
        """Identify the model's files, so that a changed model is noticed."""
        return [] if self.model is None else self.model.stamp()


def systems(data: Path) -> list[System]:
    """Return the rows of the table: first the first pass and the baselines of the comparisons."""
    kaldi = Row(KALDI, (data / "rnnlm/feat_english",), 0.5)
    trigram = Row("trigram", (ENGLISH_NGRAM,), 0.5)
    lstm = Row("LSTM", (ENGLISH,), 0.5)
    pruned = RescoreOptions(algorithm="pruned", max_ngram_order=4, max_unknown=1.0)
    return [
        System(FIRST, tuned=False),
        System("first pass, weights of dev"),
        System("first pass, minimum Bayes risk, weights of dev", consensus=True),
        System(KALDI, kaldi, pruned),
        System("trigram", trigram),
        System("LSTM, weights of lattices", lstm, tuned=False),
        System("LSTM", lstm),
        System("LSTM, minimum Bayes risk", lstm, consensus=True),
        System("LSTM, density ratio", lstm, density_ratio=True),
        System("LSTM + trigram", Row("", (ENGLISH, ENGLISH_NGRAM), 0.5)),
    ]


CORPORA = (
    Corpus("PocketSphinx", "real/pocketsphinx"),
    Corpus("Whisper", "real/whisper", 1.0, "nbest.jsonl.gz", None),
    Corpus("Whisper, written", "real/whisper", 1.0, "nbest_written.jsonl.gz", None, "english"),
    Corpus("Korean", "korean", 1.0, words="korean/words.txt.gz", english=False, whole=True),
    Corpus("synthetic", "english", archive="libri/lat.ark.gz"),
)

FACTORS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)  # of all costs, for posteriors


def lexical(texts: Texts, normalizer: str) -> Texts:
    """Return the lexical words of transcripts."""
    return {key: list(words) for key, words in lexical_texts(texts, normalizer).items()}


def best_words(lattices: dict[str, Lattice], scales: Scales) -> Texts:
    """Return the words of the best paths."""
    return {key: _spell(lattice, best_path(lattice, scales).words) for key, lattice in lattices.items()}


def consensus_words(corpus: Corpus, lattices: dict[str, Lattice], scales: Scales, factor: float) -> Texts:
    """Return the words of least expected error, with all costs multiplied by a factor."""
    flat = Scales(scales.acoustic * factor, scales.lm * factor, scales.word_penalty * factor)
    forms = LexicalForms(corpus.normalizer)
    return {
        key: _spell(lattice, mbr_decode(lattice, flat, forms=forms.table(lattice)).words)
        for key, lattice in lattices.items()
    }


def _spell(lattice: Lattice, ids: Any) -> list[str]:
    assert lattice.words is not None
    return lattice.words.spell(ids)


@dataclass
class Runner:
    """One system on one corpus."""

    corpus: Corpus
    system: System
    dev: Half
    test: Half

    def transcripts(self) -> tuple[Texts, str, float]:
        """Choose weights on the development half.

        Returns:
            The transcripts of the test half, the weights, and the word error rate of the development half.
        """
        rescored, scales, weights = self.rescored()
        lattices = rescored(self.dev)
        if not self.system.consensus:
            wer = score(self.dev.references, self.lexical(best_words(lattices, scales))).wer
            return best_words(rescored(self.test), scales), weights, wer
        errors = {
            factor: score(
                self.dev.references, self.lexical(consensus_words(self.corpus, lattices, scales, factor))
            ).errors
            for factor in FACTORS
        }
        factor = min(errors, key=errors.__getitem__)
        texts = consensus_words(self.corpus, rescored(self.test), scales, factor)
        words = sum(map(len, self.dev.references.values()))
        return texts, f"{weights}, posterior scale {factor:g}", 100 * errors[factor] / words

    def rescored(self) -> tuple[Callable[[Half], dict[str, Lattice]], Scales, str]:
        """Choose weights; return a function that rescores a half with them, the scales of its results, and a note."""
        forms = LexicalForms(self.corpus.normalizer)
        scale = self.corpus.acoustic_scale
        if self.system.model is None:
            scales = Scales(scale)
            if self.system.tuned or self.system.consensus:
                scales = tune_first_pass(
                    self.dev.lattices.items(), self.dev.text, scales, forms=forms, speakers=self.dev.speakers
                ).scales
            weights = f"acoustic scale {scales.acoustic:.3g}, word penalty {scales.word_penalty:.3g}"
            return lambda half: half.lattices, scales, weights
        options = replace(self.system.options, acoustic_scale=scale, normalizer=self.corpus.normalizer)
        lm = self.system.model.model(None)
        old_lm = self.internal_model() if self.system.density_ratio else None
        if self.system.tuned:
            start = replace(options, lm_weight=self.system.model.lm_weight)
            weights_of_kind = default_weights(next(iter(self.dev.lattices.values())))
            if weights_of_kind is not None:
                start = replace(options, lm_weight=weights_of_kind.lm_weight, word_penalty=weights_of_kind.word_penalty)
            result = tune_weights(
                self.dev.lattices.items(), self.dev.text, lm, start, old_lm=old_lm, speakers=self.dev.speakers
            )
            tuned = result.weights
            if isinstance(lm, Mixture):
                lm = Mixture(tuple((model, share) for (model, _), share in zip(lm.models, tuned.mixture, strict=True)))
            options = with_weights(start, tuned)
        output: Literal["lattice", "best"] = "lattice" if self.system.consensus else "best"

        def rescored(half: Half) -> dict[str, Lattice]:
            return dict(rescore(half.lattices.items(), lm, replace(options, output=output), old_lm=old_lm))

        weights = f"LM weight {options.lm_weight:.3g}, acoustic scale {options.acoustic_scale:.3g}"
        scales = Scales(options.acoustic_scale, word_penalty=options.word_penalty)
        return rescored, scales, f"{weights}, word penalty {options.word_penalty:.3g}"

    def internal_model(self) -> LanguageModel:
        """Estimate the recogniser's internal language model by a trigram of its transcripts of the development half."""
        texts = self.lexical(best_words(self.dev.lattices, Scales(self.corpus.acoustic_scale)))
        model: LanguageModel = train_ngram(texts.values(), NgramOptions(order=3)).as_language_model()
        return model

    def lexical(self, texts: Texts) -> Texts:
        """Return the lexical words of transcripts."""
        return lexical(texts, self.corpus.normalizer)


def compute(cells: Cells, corpus: Corpus, system_list: Sequence[System], data: Path) -> None:
    """Compute the missing transcripts of a corpus."""
    halves: list[Half] = []
    for system in system_list:
        if (system.model is not None and not corpus.english) or (system.density_ratio and corpus.acoustic_scale < 1):
            continue
        name = f"{corpus.name}/{system.name}"
        if (cell := cells.get(name)) is not None and cell["stamp"] == system.stamp():
            continue
        halves = halves or [corpus.half(data, half) for half in ("dev", "test")]
        runner = Runner(corpus, system, *halves)
        texts, weights, dev_wer = runner.transcripts()
        texts = runner.lexical(texts)
        wer = score(halves[1].references, texts)
        cells.add(
            name,
            stamp=system.stamp(),
            weights=weights,
            dev_wer=dev_wer,
            texts={key: " ".join(words) for key, words in texts.items()},
        )
        print(f"{name}: {wer.wer:.2f}; {weights}", file=sys.stderr, flush=True)
    name = f"{corpus.name}/oracle"
    if name not in cells:
        halves = halves or [corpus.half(data, half) for half in ("dev", "test")]
        lattices = list(halves[1].lattices.values())
        words = lattices[0].words
        assert words is not None
        oracle = oracle_score(lattices, halves[1].text, words, normalizer=corpus.normalizer)
        cells.add(name, wer=oracle.wer, words=oracle.words)
        print(f"{name}: {oracle.wer:.2f}", file=sys.stderr, flush=True)


def table(cells: Cells, corpus: Corpus, system_list: Sequence[System], test: Half, rates: Rates) -> Iterator[str]:
    """Return the table of a corpus as lines of Markdown, and add its word error rates to `rates`."""
    references, speakers = test.references, test.speakers
    texts = {
        system.name: {key: line.split() for key, line in cell["texts"].items()}
        for system in system_list
        if (cell := cells.get(f"{corpus.name}/{system.name}")) is not None
    }
    oracle = cells[f"{corpus.name}/oracle"]
    units = f"{len({speakers[key] for key in references})} speakers" if speakers else "speakers unknown"
    size = f"{len(references)} utterances, {oracle['words']:,} words, {units}"
    yield f"{corpus.name}: {size}, oracle {oracle['wer']:.2f}."
    yield ""
    baselines = [name for name in (FIRST, KALDI) if name in texts]
    yield from head("", "dev WER %", "WER % [95%]", *(f"vs {name} [95%], p" for name in baselines), "weights")
    for name, hypotheses in texts.items():
        wer, interval = score(references, hypotheses).wer, bootstrap(references, hypotheses, speakers=speakers).first
        rates[f"{corpus.name}/{name}"] = wer, interval
        columns = [f"{wer:.2f} {format_interval(interval)}"]
        for baseline in baselines:
            change = bootstrap(references, texts[baseline], hypotheses, speakers=speakers)
            assert change.difference is not None
            difference = wer - score(references, texts[baseline]).wer
            p_value = f"{difference:+.2f} {format_interval(change.difference, '+')}, {rounded(change.p_value)}"
            columns.append("" if name == baseline else p_value)
        cell = cells[f"{corpus.name}/{name}"]
        yield row(name, f"{cell['dev_wer']:.2f}", *columns, cell["weights"])
    rate_of = {name: cells[f"{corpus.name}/{name}"]["dev_wer"] for name in texts}
    lowest = min(rate_of.values())
    yield ""
    yield f"Lowest on the development half: {'; '.join(name for name, rate in rate_of.items() if rate == lowest)}."
    yield ""


def draw(cells: Cells, corpora: Sequence[Corpus], system_list: Sequence[System], rates: Rates, path: Path) -> None:
    """Draw the word error rate of each system with its interval, one panel for each set."""
    with svg(path, ncols=len(corpora), figsize=(3.2 * len(corpora), 3.6), sharey=True, squeeze=False) as axes:
        names = [system.name for system in system_list]
        for corpus, panel in zip(corpora, axes[0], strict=True):
            for position, name in enumerate(names):
                if f"{corpus.name}/{name}" not in rates:
                    continue
                wer, interval = rates[f"{corpus.name}/{name}"]
                panel.plot([interval.low, interval.high], [position] * 2, color="tab:blue", lw=1.5)
                panel.plot(wer, position, "o", ms=4, color="tab:blue")
            panel.axvline(cells[f"{corpus.name}/oracle"]["wer"], color="grey", ls=":", lw=1)
            panel.set_title(corpus.name, fontsize=9)
            panel.set_xlabel("WER %")
            panel.grid(axis="x", alpha=0.3)
        axes[0][0].set_yticks(range(len(names)), names, fontsize=7)
        axes[0][0].invert_yaxis()


def rounded(p_value: float | None) -> str:
    """Format a p-value."""
    assert p_value is not None
    return "< 0.001" if p_value < 0.0005 else f"{p_value:.3f}"


def format_interval(interval: Interval, sign: str = "") -> str:
    """Format the ends of an interval."""
    return f"[{interval.low:{sign}.2f}, {interval.high:{sign}.2f}]"


@command
@argument("shared", default=SHARED)
@path_option("--cells", default=ROOT / "build/evidence.jsonl", help="File that keeps the transcripts.")
@option("--only", multiple=True, type=click.Choice([corpus.name for corpus in CORPORA]), help="Set; may be repeated.")
@path_option("--picture", default=ROOT / "docs/pictures/evidence.svg")
@output
def main(shared: Path, cells: Path, only: tuple[str, ...], picture: Path, output: Path | None) -> None:
    set_torch_threads()
    data, stored = shared / "data", Cells(cells)
    rates: Rates = {}
    system_list = systems(data)
    lines = ["![Word error rates with 95% intervals; the dotted line is the oracle](pictures/evidence.svg)", ""]
    corpora = [corpus for corpus in CORPORA if not only or corpus.name in only]
    for corpus in corpora:
        compute(stored, corpus, system_list, data)
        test = corpus.half(data, "test")
        lines += show(table(stored, corpus, system_list, test, rates))
    draw(stored, corpora, system_list, rates, picture)
    put(output, "evidence", lines)


if __name__ == "__main__":
    main()
