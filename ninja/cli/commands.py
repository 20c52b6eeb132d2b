"""The table of commands. It imports nothing: the launcher reads it before it knows that a call is ours."""

# Section of `ninja --help` → name → (module below ninja.cli, one line of help). The function in the module is the
# command's name with underscores, unless the module names another after a colon.
SECTIONS = {
    "Language models and context": {
        "rescore": ("rescore", "Rescore lattices with language models."),
        "lmrescore": ("kaldi.lmrescore", "Add the scores of an n-gram model to lattices, or take them out, exactly."),
        "context": ("context", "Make the names, places and titles that matter to an utterance more probable."),
        "train": ("train", "Train a language model on a text."),
        "tune": ("tune", "Choose the weights of a rescoring on a development set."),
        "lm": ("lm", "Ask language models for scores, show what they are, convert them."),
    },
    "Word sequences of lattices": {
        "best": ("best", "Print the best word sequence of each lattice."),
        "nbest": ("best", "Print the n best word sequences of each lattice."),
        "best-path": ("kaldi.paths", "Write words and alignment of the best path of each lattice."),
        "mbr-decode": ("kaldi.mbr_decode", "Print the word sequence of least expected word error of each lattice."),
        "to-ctm-conf": ("kaldi.ctm", "Print each word of lattices with its time and confidence."),
        "nbest-to-ctm": ("kaldi.ctm", "Print each word of single-path lattices with its time."),
        "confidence": (
            "kaldi.mbr_decode",
            "Print the cost difference between the best two word sequences of each lattice.",
        ),
        "nbest-to-linear": ("kaldi.linear", "Write words, alignment and costs of single-path lattices."),
        "oracle": ("oracle", "Find the path of each lattice with the fewest errors."),
        "nbest-to-prons": ("kaldi.prons", "Print the phones of each word of single-path lattices."),
    },
    "Lattices from lattices": {
        "prune": ("prune", "Remove the arcs of lattices that lie outside a beam."),
        "limit-depth": ("kaldi.costs", "Limit how many arcs of a lattice cross any frame."),
        "determinize-pruned": ("kaldi.determinize", "Keep the best path of each word sequence within a beam."),
        "determinize-phone-pruned": (
            "kaldi.determinize",
            "Keep the best path of each word sequence within a beam, determinizing phones first.",
        ),
        "determinize": ("kaldi.determinize", "Keep the best path of each word sequence."),
        "minimize": ("kaldi.minimize", "Merge states of lattices that have the same completions."),
        "push": ("kaldi.minimize", "Push alignments and costs of lattices towards their start."),
        "reverse": ("kaldi.labels", "Reverse lattices, for language models that read backwards."),
        "topsort": ("kaldi.labels", "Sort the states of lattices topologically."),
        "project": ("kaldi.labels", "Make lattices of words alone, or of transition ids alone."),
        "rmali": ("kaldi.labels", "Remove the alignments of lattices."),
        "scale": ("kaldi.costs", "Multiply the costs of lattices, or mix graph and acoustic ones."),
        "add-penalty": ("kaldi.costs", "Add a word insertion penalty to the graph costs of lattices."),
        "boost-ali": ("kaldi.boost_ali", "Lower the graph costs of arcs by their number of frames with a wrong phone."),
        "add-trans-probs": (
            "kaldi.transitions",
            "Add transition costs to the graph costs of lattices made without them.",
        ),
        "expand-ngram": ("kaldi.minimize", "Split the states of lattices until each has one history of n - 1 words."),
        "compose": ("kaldi.compose", "Compose lattices with an FST, or with other lattices."),
        "difference": ("kaldi.compose", "Remove transcripts from lattices."),
        "1best": ("kaldi.paths:one_best", "Write the best path of each lattice as a lattice."),
        "to-nbest": ("kaldi.paths", "Write the n best paths of each lattice as lattices."),
    },
    "Several lattices": {
        "union": ("kaldi.union", "Unite the lattices of several archives."),
        "combine": ("kaldi.union", "Combine the lattices of several systems for consensus decoding."),
        "interp": ("kaldi.compose", "Interpolate the costs of two archives of lattices."),
        "equivalent": (
            "kaldi.equivalent",
            "Test whether two archives hold equivalent lattices; exit code 1 when they do not.",
        ),
        "nbest-to-lattice": (
            "kaldi.linear",
            "Unite the n-best paths of each utterance, keys ending in -1, -2, …, in one lattice.",
        ),
    },
    "Times and phones": {
        "align-words": (
            "kaldi.align",
            "Give each arc of lattices one word, or silence, and exactly the frames of its phones.",
        ),
        "align-words-lexicon": (
            "kaldi.align",
            "Give each arc of lattices one word, and exactly the frames of its phones, by a lexicon.",
        ),
        "align-phones": ("kaldi.align", "Give each arc of lattices one phone and exactly its frames."),
        "to-phone-lattice": ("kaldi.transitions", "Convert word lattices to phone lattices by their transition ids."),
    },
    "Archives and formats": {
        "convert": ("convert", "Convert lattices between formats."),
        "ctc-decode": ("ctc_decode", "Decode the output matrices of a CTC model into lattices by prefix beam search."),
        "copy": ("kaldi.copy", "Copy lattices, all or those of some keys, to another archive or form."),
        "copy-backoff": ("kaldi.copy", "Copy lattices, those of a second archive where it has them."),
        "merge": ("archives", "Merge archives: one after the other, each key once."),
        "split": ("archives", "Split lattices into several archives."),
        "to-fst": ("kaldi.to_fst", "Convert lattices to OpenFst FSTs, without costs unless scales are given."),
        "linear-to-nbest": ("kaldi.linear", "Make single-path lattices from alignments, words and costs."),
        "string-to-lattice": ("kaldi.linear", "Make a lattice from each line of word ids, or of words with --words."),
    },
    "Figures": {
        "info": ("info", "Show the size of lattices and how well a vocabulary covers them."),
        "posteriors": ("posteriors", "Print the posterior of each arc of lattices."),
        "arc-post": ("kaldi.arc_post", "Print the posterior of each arc of lattices, as Kaldi does."),
        "to-post": ("kaldi.to_post", "Write the posterior of each transition id at each frame of lattices."),
        "to-mpe-post": (
            "kaldi.to_post",
            "Write posteriors of transition ids for training by minimum phone frame error.",
        ),
        "to-smbr-post": (
            "kaldi.to_post",
            "Write posteriors of transition ids for training by state-level minimum Bayes risk.",
        ),
        "depth": ("kaldi.depth", "Print the mean number of arcs that cross a frame of each lattice."),
        "depth-per-frame": ("kaldi.depth", "Print how many arcs of each lattice cross each frame."),
        "show": ("show", "Write a page that shows a lattice as a graph, for any browser."),
        "report": ("report", "Write a page that compares lattices before and after rescoring with the references."),
    },
    "Scores": {
        "score": ("score", "Compute the word error rate of transcripts or lattices."),
        "compute-wer": ("kaldi.wer", "Compute word and sentence error rates of transcripts, as Kaldi's compute-wer."),
        "compute-wer-bootci": (
            "kaldi.bootci",
            "Compute a confidence interval of a word error rate, or of a difference.",
        ),
        "align-text": ("kaldi.wer", "Align the words of two texts, as Kaldi's align-text."),
    },
    "This program": {"doctor": ("doctor", "Check the installation."), "version": ("doctor", "Print the version.")},
}
COMMANDS = {name: row for rows in SECTIONS.values() for name, row in rows.items()}
