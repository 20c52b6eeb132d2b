"""Table of the commands, and the equivalents of commands and options of other toolkits.

This module imports nothing, so ``ninja._launch`` can load it before the rest of the package is imported.
"""

TYPE_CHECKING = False  # importing `typing` would take longer than this module
if TYPE_CHECKING:
    from collections.abc import Iterable


class Entry:
    """Entry of the command table.

    Args:
        module: Module in ``ninja.cli`` and, after a colon, the function that implements the command. By default, the
            name of the function is the command name with underscores.
        help: First line of the command's help.
        has_shards: Whether each result depends on only one lattice, which allows the command to run in shards.
        scales_costs: Whether the command applies its scales to the costs that it writes.
    """

    def __init__(self, module: str, help: str, *, has_shards: bool = True, scales_costs: bool = False) -> None:
        self.module, _, self.function = module.partition(":")
        self.help = help
        self.has_shards = has_shards
        self.scales_costs = scales_costs


# Section of `ninja --help` → command name → entry.
SECTIONS = {
    "Language models and context": {
        "rescore": Entry("rescore", "Rescore lattices with language models."),
        "lmrescore": Entry("kaldi.lmrescore", "Add exact n-gram model scores to lattices, or subtract them."),
        "context": Entry("context", "Boost names, places and titles that are relevant to each utterance."),
        "serve": Entry(
            "serve",
            "Rescore lattices and correct transcripts that other programs send over HTTP.",
            has_shards=False,
        ),
        "correct": Entry("correct", "Correct names, places and titles in transcripts, n-best lists and lattices."),
        "learn": Entry("learn", "Learn phrases from corrected transcripts.", has_shards=False),
        "train": Entry("train", "Train a neural language model."),
        "train ngram": Entry("train:ngram", "Train an n-gram model with modified Kneser-Ney smoothing."),
        "train context": Entry(
            "train_context:context", "Train a phrase encoder, which finds phrases that sound similar."
        ),
        "train context-lm": Entry(
            "train_context:context_lm",
            "Train a pointer network, which adds the phrases of an utterance to a language model.",
        ),
        "tune": Entry("tune", "Tune rescoring weights on a development set.", has_shards=False),
        "lm": Entry("lm", "Score text with language models; describe or convert models."),
    },
    "Paths and word sequences": {
        "best": Entry("best", "Print the best word sequence of each lattice."),
        "nbest": Entry("best", "Print the n best word sequences of each lattice."),
        "best-path": Entry("kaldi.paths", "Write the words and the alignment of the best path of each lattice."),
        "mbr-decode": Entry("kaldi.mbr_decode", "Print the minimum Bayes risk word sequence of each lattice."),
        "to-ctm-conf": Entry("kaldi.ctm", "Print the words of lattices with times and confidences, as CTM."),
        "nbest-to-ctm": Entry("kaldi.ctm", "Print the words of single-path lattices with times, as CTM."),
        "confidence": Entry(
            "kaldi.mbr_decode", "Print the cost difference between the two best word sequences of each lattice."
        ),
        "nbest-to-linear": Entry("kaldi.paths", "Write the words, alignment and costs of single-path lattices."),
        "oracle": Entry("oracle", "Print the path with the fewest errors in each lattice."),
        "nbest-to-prons": Entry("kaldi.ctm", "Print the phones of each word in single-path lattices."),
    },
    "Operations on lattices": {
        "prune": Entry("prune", "Remove arcs outside a beam from lattices."),
        "limit-depth": Entry("kaldi.operations", "Limit the number of arcs that cross any frame of a lattice."),
        "determinize-pruned": Entry("kaldi.determinize", "Keep the best path of each word sequence within a beam."),
        "determinize-phone-pruned": Entry(
            "kaldi.determinize", "Determinize lattices over phones and words, then over words, within a beam."
        ),
        "determinize": Entry("kaldi.determinize", "Keep the best path of each word sequence."),
        "minimize": Entry("kaldi.operations", "Minimize lattices by merging equivalent states."),
        "push": Entry("kaldi.operations", "Push alignments and costs towards the start of lattices."),
        "reverse": Entry("kaldi.operations", "Reverse lattices, for use with backward language models."),
        "topsort": Entry("kaldi.operations", "Sort the states of lattices topologically."),
        "project": Entry("kaldi.operations", "Keep only the words, or only the transition ids, of lattices."),
        "rmali": Entry("kaldi.operations", "Remove the alignments from lattices."),
        "scale": Entry(
            "kaldi.operations",
            "Scale the graph and acoustic costs of lattices, or add one to the other.",
            scales_costs=True,
        ),
        "add-penalty": Entry(
            "kaldi.operations", "Add a word insertion penalty to the graph costs of lattices.", scales_costs=True
        ),
        "boost-ali": Entry("kaldi.training", "Lower the graph costs of arcs by --b for each frame with a wrong phone."),
        "add-trans-probs": Entry("kaldi.operations", "Add transition costs to the graph costs of lattices."),
        "expand-ngram": Entry(
            "kaldi.operations", "Split states of lattices so that each state has a unique history of n - 1 words."
        ),
        "compose": Entry("kaldi.compose", "Compose lattices with an FST, or with other lattices."),
        "difference": Entry("kaldi.compose", "Remove from each lattice the paths that match its transcript."),
        "1best": Entry("kaldi.paths:one_best", "Write the best path of each lattice as a lattice."),
        "to-nbest": Entry("kaldi.paths", "Write the n best paths of each lattice as lattices."),
    },
    "Combination of lattices": {
        "union": Entry("kaldi.compose", "Unite the lattices of several archives."),
        "combine": Entry(
            "kaldi.compose", "Combine the lattices of several systems for consensus decoding.", scales_costs=True
        ),
        "interp": Entry("kaldi.compose", "Interpolate the costs of lattices in two archives."),
        "equivalent": Entry("kaldi.copy", "Test whether two archives contain equivalent lattices."),
        "stitch": Entry(
            "stitch", "Join overlapping windows of long recordings into one lattice per recording.", has_shards=False
        ),
        "nbest-to-lattice": Entry(
            "kaldi.linear", "Combine n-best paths (keys ending in -1, -2, …) into lattices.", has_shards=False
        ),
    },
    "Alignment": {
        "align-words": Entry("kaldi.align", "Align arcs with words and silences using word-position-dependent phones."),
        "align-words-lexicon": Entry("kaldi.align", "Align arcs with words using a lexicon."),
        "align-phones": Entry("kaldi.align", "Align arcs with phones."),
        "to-phone-lattice": Entry(
            "kaldi.operations", "Convert word lattices to phone lattices using their transition ids."
        ),
    },
    "Archives and formats": {
        "convert": Entry("archives", "Convert lattices between formats."),
        "ctc-decode": Entry(
            "ctc_decode", "Decode the output matrices of a CTC model into lattices by prefix beam search."
        ),
        "copy": Entry("kaldi.copy", "Copy all lattices, or lattices with selected keys, to another archive or format."),
        "copy-backoff": Entry(
            "kaldi.copy", "Copy an archive, replacing lattices whose keys also occur in a second archive."
        ),
        "merge": Entry("archives", "Concatenate archives, keeping the first lattice of each key.", has_shards=False),
        "split": Entry("archives", "Split lattices into several archives.", has_shards=False),
        "gather": Entry("shard_commands", "Join the results of all shards of a run."),
        "shard-script": Entry(
            "shard_commands",
            "Print a job-array script that runs a ninja command in shards on Slurm, SGE or Kubernetes.",
        ),
        "to-fst": Entry("archives", "Convert lattices to OpenFst FSTs; costs are included if scales are specified."),
        "linear-to-nbest": Entry("kaldi.linear", "Build single-path lattices from alignments, words and costs."),
        "string-to-lattice": Entry("kaldi.linear", "Build a lattice from each line of text."),
    },
    "Posteriors and statistics": {
        "info": Entry("info", "Show the size of lattices and how well a vocabulary covers them."),
        "posteriors": Entry("posteriors", "Print the posterior probability of each arc."),
        "arc-post": Entry("posteriors", "Print the posterior probability of each arc, like Kaldi's lattice-arc-post."),
        "to-post": Entry("kaldi.training", "Write the posterior of each transition id at each frame of each lattice."),
        "to-mpe-post": Entry("kaldi.training", "Write MPFE posteriors of transition ids at each frame."),
        "to-smbr-post": Entry("kaldi.training", "Write sMBR posteriors of transition ids at each frame."),
        "depth": Entry("posteriors", "Print the depth of each lattice (the mean number of arcs that cross a frame)."),
        "depth-per-frame": Entry("posteriors", "Print the number of arcs that cross each frame of each lattice."),
        "show": Entry("show", "Write a web page that shows a lattice as a graph.", has_shards=False),
        "report": Entry(
            "show",
            "Write a web page that compares the errors of lattices before and after rescoring.",
            has_shards=False,
        ),
    },
    "Scoring": {
        "score": Entry("score", "Compute the word error rate of transcripts or lattices.", has_shards=False),
        "compute-wer": Entry(
            "kaldi.wer", "Compute word and sentence error rates of transcripts, like Kaldi's compute-wer."
        ),
        "compute-wer-bootci": Entry("kaldi.wer", "Compute a confidence interval for a word error rate."),
        "align-text": Entry("kaldi.wer", "Align the words of two texts, like Kaldi's align-text."),
    },
    "Installation": {
        "doctor": Entry("doctor", "Check the installation."),
        "version": Entry("doctor", "Print the version."),
    },
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}

# Options of Kaldi, SRILM and HTK programs, and the equivalent options of ninja.
ALIASES = {
    "--acwt": "--acoustic-scale",
    "--inv-acwt": "--inv-acoustic-scale",
    "--lmwt": "--inv-acoustic-scale",
    "--lm-weight": "--lm-scale",
    "--weight": "--lm-weight",
    "--wip": "--word-penalty",
    "--word-ins-penalty": "--word-penalty",
    "--word-insertion-penalty": "--word-penalty",
    "--word-symbol-table": "--words",
    "--words-file": "--words",
    "--symtab": "--words",
    "--vocab": "--words",
    "--n-best": "--n",
    "--nbest": "--n",
    "--num-best": "--n",
    "--lattice-beam": "--beam",
    "--prune-beam": "--beam",
    "--nj": "--jobs",
    "--num-jobs": "--jobs",
    "--output": "--output-file",
    "--out": "--output-file",
    "--format": "--from",
    "--input-format": "--from",
    "--output-format": "--to",
    "--lm": "--rnnlm",
    "--model": "--rnnlm",
    "--rnnlm": "--lm",
    "--gpu": "--device",
    "--cuda": "--device",
}
# Programs of other toolkits, and the equivalent commands of ninja.
PROGRAMS = {
    "lattice-to-post": "to-post",
    "lattice-tool": "convert",
    "nbest-lattice": "mbr-decode",
    "wer": "score",
    "sclite": "score",
    "ppl": "lm",
    "perplexity": "lm",
    "ngram": "lm",
    "decode": "best",
    "1-best": "best",
    "one-best": "best",
    "ctm": "to-ctm-conf",
    "help": "--help",
}


def suggestions(name: str, known: "Iterable[str]", aliases: "dict[str, str]") -> list[str]:
    """Return the equivalent of a name from another toolkit or, if there is none, known names that are similar."""
    from difflib import get_close_matches

    known = set(known)
    if aliases.get(name) in known:
        return [aliases[name]]
    return get_close_matches(name.removeprefix("lattice-"), sorted(known), 3, 0.7)
