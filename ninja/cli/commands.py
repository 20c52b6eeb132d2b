"""The table of commands. It imports nothing: the launcher reads it before it knows that a call is for this program."""


class Entry:
    """A command.

    Args:
        module: Module below ``ninja.cli``. The function in it has the command's name with underscores, unless another
            follows a colon.
        help: The first line of its help.
        has_shards: Its results are those of single lattices, so that it can run in shards.
        scales_costs: The costs that it writes are multiplied by its scales.
    """

    def __init__(self, module: str, help: str, *, has_shards: bool = True, scales_costs: bool = False) -> None:
        self.module, _, self.function = module.partition(":")
        self.help = help
        self.has_shards = has_shards
        self.scales_costs = scales_costs


# Section of `ninja --help` → name → record.
SECTIONS = {
    "Language models and context": {
        "rescore": Entry("rescore", "Rescore lattices with language models."),
        "lmrescore": Entry(
            "kaldi.lmrescore", "Add the scores of an n-gram model to lattices, or subtract them, exactly."
        ),
        "context": Entry("context", "Make names, places and titles that are relevant to an utterance more probable."),
        "train": Entry("train", "Train a language model on a text."),
        "train ngram": Entry("train:ngram", "Train an n-gram model with modified Kneser-Ney smoothing."),
        "train context": Entry(
            "train_context:context", "Train a phrase encoder, which finds phrases that sound similar."
        ),
        "train context-lm": Entry("train_context:context_lm", "Train a pointer to phrases beside a language model."),
        "tune": Entry("tune", "Tune rescoring weights on a development set.", has_shards=False),
        "lm": Entry("lm", "Score text with language models, or describe or convert the models."),
    },
    "Word sequences of lattices": {
        "best": Entry("best", "Print the best word sequence of each lattice."),
        "nbest": Entry("best", "Print the n best word sequences of each lattice."),
        "best-path": Entry("kaldi.paths", "Write words and alignment of the best path of each lattice."),
        "mbr-decode": Entry(
            "kaldi.mbr_decode", "Print the word sequence of least expected word error of each lattice."
        ),
        "to-ctm-conf": Entry("kaldi.ctm", "Print each word of lattices with its time and confidence."),
        "nbest-to-ctm": Entry("kaldi.ctm", "Print each word of single-path lattices with its time."),
        "confidence": Entry("kaldi.mbr_decode", "Print the cost difference between the two best word sequences."),
        "nbest-to-linear": Entry("kaldi.paths", "Write words, alignment and costs of single-path lattices."),
        "oracle": Entry("oracle", "Find the path of each lattice with the fewest errors."),
        "nbest-to-prons": Entry("kaldi.ctm", "Print the phones of each word of single-path lattices."),
    },
    "Lattices from lattices": {
        "prune": Entry("prune", "Remove the arcs of lattices that lie outside a beam."),
        "limit-depth": Entry("kaldi.operations", "Limit the number of arcs of a lattice that cross any frame."),
        "determinize-pruned": Entry("kaldi.determinize", "Keep the best path of each word sequence within a beam."),
        "determinize-phone-pruned": Entry("kaldi.determinize", "Determinize phones, then words, within a beam."),
        "determinize": Entry("kaldi.determinize", "Keep the best path of each word sequence."),
        "minimize": Entry("kaldi.operations", "Merge states of lattices that have the same completions."),
        "push": Entry("kaldi.operations", "Push alignments and costs of lattices towards their start."),
        "reverse": Entry("kaldi.operations", "Reverse lattices, for language models that read backwards."),
        "topsort": Entry("kaldi.operations", "Sort the states of lattices topologically."),
        "project": Entry("kaldi.operations", "Make lattices of words alone, or of transition ids alone."),
        "rmali": Entry("kaldi.operations", "Remove the alignments of lattices."),
        "scale": Entry(
            "kaldi.operations", "Multiply the costs of lattices, or mix graph and acoustic ones.", scales_costs=True
        ),
        "add-penalty": Entry(
            "kaldi.operations", "Add a word insertion penalty to the graph costs of lattices.", scales_costs=True
        ),
        "boost-ali": Entry("kaldi.training", "Lower the graph costs of arcs by their wrong phone frames."),
        "add-trans-probs": Entry("kaldi.operations", "Add transition costs to the graph costs of lattices."),
        "expand-ngram": Entry(
            "kaldi.operations", "Split the states of lattices until each has one history of n - 1 words."
        ),
        "compose": Entry("kaldi.compose", "Compose lattices with an FST, or with other lattices."),
        "difference": Entry("kaldi.compose", "Remove transcripts from lattices."),
        "1best": Entry("kaldi.paths:one_best", "Write the best path of each lattice as a lattice."),
        "to-nbest": Entry("kaldi.paths", "Write the n best paths of each lattice as lattices."),
    },
    "Several lattices": {
        "union": Entry("kaldi.compose", "Unite the lattices of several archives."),
        "combine": Entry(
            "kaldi.compose", "Combine the lattices of several systems for consensus decoding.", scales_costs=True
        ),
        "interp": Entry("kaldi.compose", "Interpolate the costs of two archives of lattices."),
        "equivalent": Entry("kaldi.copy", "Test whether two archives hold equivalent lattices."),
        "nbest-to-lattice": Entry(
            "kaldi.linear", "Unite n-best paths, keys ending in -1, -2, …, in lattices.", has_shards=False
        ),
    },
    "Times and phones": {
        "align-words": Entry("kaldi.align", "Align arcs with words and silences, by word positions."),
        "align-words-lexicon": Entry("kaldi.align", "Align arcs with words, by a lexicon."),
        "align-phones": Entry("kaldi.align", "Align arcs with phones."),
        "to-phone-lattice": Entry(
            "kaldi.operations", "Convert word lattices to phone lattices by their transition ids."
        ),
    },
    "Archives and formats": {
        "convert": Entry("archives", "Convert lattices between formats."),
        "ctc-decode": Entry(
            "ctc_decode", "Decode the output matrices of a CTC model into lattices by prefix beam search."
        ),
        "copy": Entry("kaldi.copy", "Copy all lattices, or those with given keys, to another archive or format."),
        "copy-backoff": Entry("kaldi.copy", "Copy lattices, those of a second archive where it has them."),
        "merge": Entry("archives", "Merge archives: one after the other, each key once.", has_shards=False),
        "split": Entry("archives", "Split lattices into several archives.", has_shards=False),
        "gather": Entry("shard_commands", "Join the results of all shards of a run."),
        "shard-script": Entry(
            "shard_commands", "Print the array script of a run in shards, for Slurm, SGE or Kubernetes."
        ),
        "to-fst": Entry("archives", "Convert lattices to OpenFst FSTs, without costs unless scales are given."),
        "linear-to-nbest": Entry("kaldi.linear", "Make single-path lattices from alignments, words and costs."),
        "string-to-lattice": Entry(
            "kaldi.linear", "Make a lattice from each line of word ids, or of words with --words."
        ),
    },
    "Figures": {
        "info": Entry("info", "Show the size of lattices and how well a vocabulary covers them."),
        "posteriors": Entry("posteriors", "Print the posterior of each arc of lattices."),
        "arc-post": Entry("posteriors", "Print the posterior of each arc of lattices, as Kaldi does."),
        "to-post": Entry("kaldi.training", "Write the posterior of each transition id at each frame of lattices."),
        "to-mpe-post": Entry("kaldi.training", "Write MPFE posteriors of transition ids at each frame."),
        "to-smbr-post": Entry("kaldi.training", "Write sMBR posteriors of transition ids at each frame."),
        "depth": Entry("posteriors", "Print the mean number of arcs that cross a frame of each lattice."),
        "depth-per-frame": Entry("posteriors", "Print the number of arcs of each lattice that cross each frame."),
        "show": Entry("show", "Write a page that shows a lattice as a graph, for any browser.", has_shards=False),
        "report": Entry(
            "show",
            "Write a page that compares lattices before and after rescoring, given the references.",
            has_shards=False,
        ),
    },
    "Scores": {
        "score": Entry("score", "Compute the word error rate of transcripts or lattices.", has_shards=False),
        "compute-wer": Entry(
            "kaldi.wer", "Compute word and sentence error rates of transcripts, as Kaldi's compute-wer."
        ),
        "compute-wer-bootci": Entry("kaldi.wer", "Compute a confidence interval of a word error rate."),
        "align-text": Entry("kaldi.wer", "Align the words of two texts, as Kaldi's align-text."),
    },
    "This program": {
        "doctor": Entry("doctor", "Check the installation."),
        "version": Entry("doctor", "Print the version."),
    },
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}
