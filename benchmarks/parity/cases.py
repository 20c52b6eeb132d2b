"""The comparisons of docs/parity.md: for each of Kaldi's result files, our commands and the comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.parity.checks import (
    Check,
    Finding,
    Sequences,
    is_close,
    rows,
    same_arcs,
    same_arrays,
    same_bins,
    same_bytes,
    same_fields,
    same_lines,
    same_machines,
    same_numbers,
    same_posteriors,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison; ``{golden}``, ``{data}``, ``{scale}`` and ``{out}`` are filled into the commands."""

    golden: str  # Kaldi's file, in {golden}
    subject: str  # the values that are compared
    commands: tuple[str, ...]
    check: Check
    ours: str = "{out}"  # the file that is compared
    sets: tuple[str, ...] = ("korean", "english")


def cases(name: str, acoustic_scale: float) -> Iterator[Case]:
    """Yield all comparisons; the caller omits those whose golden file the set lacks."""
    yield from _archives(name == "english")
    yield from _paths()
    yield from _costs(acoustic_scale)
    yield from _determinization(acoustic_scale)
    yield from _algebra(acoustic_scale)
    yield from _consensus()
    yield from _alignment()


LAT = "{golden}/lat.ark.gz"
SCALED = "--acoustic-scale={scale}"


def _archives(sorted_states: bool) -> Iterator[Case]:
    yield Case("lat.ark.gz", "every state, arc, cost and alignment", (f"copy {LAT} -o {{out}}",), same_arrays(0.0))
    yield Case("lat.txt.gz", "the same, text to text", ("copy {golden}/lat.txt.gz -o ark,t:{out}",), same_arrays(1e-4))
    if sorted_states:
        yield Case("lat.ark.gz", "all bytes except two header fields", (f"copy {LAT} -o {{out}}",), same_bytes)
        yield Case("lat.txt.gz", "the text of the binary form", (f"copy {LAT} -o ark,t:{{out}}",), same_bytes)
    raw = (f"copy {LAT} --write-compact=false -o {{out}}",)
    yield Case("raw.ark.gz", "paths, costs and alignments", raw, Sequences())
    yield Case("project.ark.gz", "paths and costs", (f"project {LAT} -o {{out}}",), Sequences())
    yield Case(
        "fst.txt.gz",
        "arcs, costs to 1e-3",
        (f"to-fst {LAT} --acoustic-scale=1 --lm-scale=1 -o ark,t:{{out}}",),
        same_machines(1e-3),
    )


def _paths() -> Iterator[Case]:
    best = f"best-path {LAT} {SCALED} -o {{out}} --alignments {{out}}.ali"
    yield Case("best.words.gz", "words", (best,), same_fields)
    yield Case("best.ali.gz", "transition ids", (best,), same_fields, "{out}.ali")
    for lattices in ("raw", "wide"):
        command = f"best-path {{data}}/{lattices}.ark.gz -o {{out}}"
        yield Case(f"{lattices}_best.words.gz", "words", (command,), same_fields, sets=("korean",))
    linear = "nbest-to-linear {out}.one -o {out} --lm-cost {out}.lm --ac-cost {out}.ac"
    best_commands = (f"1best {LAT} {SCALED} -o {{out}}.one", linear)
    for name, ending in (("graph", "lm"), ("acoustic", "ac")):
        subject = f"{name} cost of the best path, 1e-3"
        yield Case(f"best.{name}_cost.gz", subject, best_commands, same_numbers(1e-3), f"{{out}}.{ending}")
    nbest_commands = (f"to-nbest {LAT} {SCALED} --n=20 -o {{out}}.one", linear)
    yield Case("nbest20.words.gz", "the set of 20 word sequences and their costs, 1e-3", nbest_commands, same_nbest)


def same_nbest(theirs: Path, ours: Path) -> Finding:
    """Compare the n best sequences of each key and their costs, in any order."""

    def read_sequences(
        words: Path, graph: Path, acoustic: Path
    ) -> dict[str, dict[tuple[str, ...], tuple[float, float]]]:
        sequences_of: dict[str, dict[tuple[str, ...], tuple[float, float]]] = {}
        graph_cost, acoustic_cost = rows(graph), rows(acoustic)
        for name, sequence in rows(words).items():
            costs = float(graph_cost[name][0]), float(acoustic_cost[name][0])
            sequences_of.setdefault(name.rpartition("-")[0], {})[tuple(sequence)] = costs
        return sequences_of

    finding = Finding()
    folder = theirs.parent
    kaldi = read_sequences(theirs, folder / "nbest20.graph_cost.gz", folder / "nbest20.acoustic_cost.gz")
    sequences_of = read_sequences(ours, Path(f"{ours}.lm"), Path(f"{ours}.ac"))
    for key, sequences in kaldi.items():
        our_sequences = sequences_of.get(key, {})
        pairs = [
            (a, b)
            for sequence in sequences.keys() & our_sequences.keys()
            for a, b in zip(sequences[sequence], our_sequences[sequence], strict=True)
        ]
        is_equal = sequences.keys() == our_sequences.keys() and all(is_close(a, b, 1e-3) for a, b in pairs)
        finding.add(key, is_equal, max((abs(a - b) for a, b in pairs), default=0.0))
    return finding


def _costs(acoustic_scale: float) -> Iterator[Case]:
    for beam, name in ((4, "prune4.ark.gz"), (1, "prune1.txt.gz")):
        yield Case(name, "surviving arcs", (f"prune {LAT} {SCALED} --beam={beam} -o {{out}}",), same_arcs(1e-3))
    wide = "prune {data}/wide.ark.gz --beam=6 -o {out}"
    yield Case("wide_prune6.ark.gz", "surviving arcs", (wide,), same_arcs(1e-3), sets=("korean",))
    limited = f"limit-depth {LAT} {SCALED} --max-arcs-per-frame=5 -o {{out}}"
    yield Case("limit_depth5.ark.gz", "surviving arcs", (limited,), same_arcs(1e-3))
    scaled = f"scale {LAT} --lm-scale=0.7 --acoustic-scale=1.3 -o {{out}}"
    yield Case("scale.ark.gz", "costs of each arc, 1e-4", (scaled,), same_arrays(1e-4))
    paying = f"add-penalty {LAT} --word-ins-penalty=0.5 -o {{out}}"
    yield Case("penalty.ark.gz", "costs of each arc, 1e-4", (paying,), same_arrays(1e-4))
    posteriors = f"arc-post {LAT} {SCALED} -o {{out}}"
    yield Case("arc_post.txt.gz", "posterior of each arc, 1e-4", (posteriors,), same_posteriors(1e-4))
    yield Case("depth.txt.gz", "the printed figures", (f"depth {LAT} -o {{out}}",), same_fields)
    yield Case("depth_per_frame.txt.gz", "the printed figures", (f"depth-per-frame {LAT} -o {{out}}",), same_fields)


def _determinization(acoustic_scale: float) -> Iterator[Case]:
    within = "words, costs to 1e-3 and alignment of each sequence within the beam"
    # Kaldi's ran on the same lattices written as state-level ones.
    raw = f"copy {LAT} --write-compact=false -o {{out}}.raw"
    pruned = (raw, f"determinize-pruned {{out}}.raw {SCALED} --beam=6 -o {{out}}")
    yield Case("determinize_pruned6.ark.gz", within, pruned, Sequences(6.0, acoustic_scale))
    state_level = "determinize-pruned {data}/raw.ark.gz --beam=8 -o {out}"
    yield Case(
        "raw_determinize_pruned8.ark.gz", within, (state_level,), Sequences(8.0, acoustic_scale), sets=("korean",)
    )
    phones = "determinize-phone-pruned {data}/raw.ark.gz --model={data}/trans.mdl --beam=8 -o {out}"
    yield Case(
        "raw_determinize_phone_pruned8.ark.gz", within, (phones,), Sequences(8.0, acoustic_scale), sets=("korean",)
    )


def _algebra(acoustic_scale: float) -> Iterator[Case]:
    whole = "words, costs to 1e-3 and alignment of each sequence"
    for verb in ("push", "minimize"):
        yield Case(f"{verb}.ark.gz", whole, (f"{verb} {LAT} -o {{out}}",), Sequences())
    interp = f"interp {LAT} {{golden}}/scale.ark.gz --alpha=0.3 -o {{out}}"
    yield Case("interp.ark.gz", "words and costs to 1e-3 of each sequence", (interp,), Sequences())
    union = "union {golden}/prune4.ark.gz {golden}/penalty.ark.gz -o {out}"
    yield Case("union.ark.gz", whole, (union,), Sequences())
    combine = f"combine {LAT} {{golden}}/scale.ark.gz --lat-weights=0.6:0.4 -o {{out}}"
    summed = "words, summed costs to 1e-3 and alignment of the thousand best sequences"
    yield Case("combine.ark.gz", summed, (combine,), Sequences(whole=False, summed=True))


def _consensus() -> Iterator[Case]:
    mbr = (
        f"mbr-decode {LAT} {SCALED} -o {{out}} --bayes-risk {{out}}.risk"
        " --sausage {out}.sausage --times {out}.times",
    )
    yield Case("mbr.words.gz", "words", mbr, same_fields)
    yield Case("mbr.bayes_risk.gz", "expected errors, 1e-3", mbr, same_numbers(1e-3), "{out}.risk")
    yield Case("mbr.sausage.gz", "probabilities of each bin, 1e-3", mbr, same_bins(1e-3), "{out}.sausage")
    yield Case("mbr.times.gz", "times, one frame", mbr, same_numbers(1.0), "{out}.times")
    wide = ("mbr-decode {data}/wide.ark.gz -o ark,t:{out}",)  # ids, although words.txt.gz is next to the lattices
    yield Case("wide_mbr.words.gz", "words", wide, same_fields, sets=("korean",))
    lines = f"to-ctm-conf {LAT} {SCALED} --frame-shift=0.01"
    yield Case("ctm_conf.gz", "the printed lines", (f"{lines} -o {{out}}",), same_lines)
    yield Case("ctm_conf_map.gz", "the printed lines", (f"{lines} --decode-mbr=false -o {{out}}",), same_lines)


def _alignment() -> Iterator[Case]:
    of_words = f"align-words {LAT} --word-boundary={{data}}/word_boundary.int --model={{data}}/trans.mdl -o {{out}}"
    yield Case("align_words.ark.gz", "every state, arc, cost and alignment", (of_words,), same_arrays(0.0))
    of_phones = f"align-phones {LAT} --model={{data}}/trans.mdl --replace-output-symbols=true -o {{out}}"
    yield Case("align_phones.ark.gz", "every state, arc, cost and alignment", (of_phones,), same_arrays(0.0))
    aligned = "align-words {out}.one --word-boundary={data}/word_boundary.int --model={data}/trans.mdl -o {out}.aligned"
    best = (f"1best {LAT} -o {{out}}.one", aligned, "nbest-to-ctm {out}.aligned --frame-shift=0.03 -o {out}")
    yield Case("ctm_best_aligned.gz", "the printed lines", best, same_lines)
    exact = "to-ctm-conf {golden}/align_words.ark.gz --frame-shift=0.03 -o {out}"
    yield Case("ctm_conf_aligned.gz", "the printed lines, from Kaldi's aligned lattices", (exact,), same_lines)
    conf = (of_words.replace("{out}", "{out}.aligned"), "to-ctm-conf {out}.aligned --frame-shift=0.03 -o {out}")
    yield Case("ctm_conf_aligned.gz", "the printed lines, from Ninja's aligned lattices", conf, same_lines)
    oracle = f"oracle {LAT} --ref={{text}} --words={{words}} --oov=1 -o {{out}} --edits={{out}}.edits"
    yield Case("oracle.edits.gz", "edits", (oracle,), same_fields, "{out}.edits")
