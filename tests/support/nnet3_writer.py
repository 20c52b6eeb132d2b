"""Write small Kaldi RNNLMs in Kaldi's formats, binary and text."""

import struct

import numpy as np


def binary_value(value):
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"\4" + struct.pack("<i", value)
    if isinstance(value, np.float64):
        return b"\10" + struct.pack("<d", value)
    if isinstance(value, float):
        return b"\4" + struct.pack("<f", value)
    if isinstance(value, list):  # a vector of integers
        return b"\4" + struct.pack("<i", len(value)) + np.array(value, "<i4").tobytes()
    kind = {("<f4", 1): b"FV ", ("<f8", 1): b"DV ", ("<f4", 2): b"FM ", ("<f8", 2): b"DM "}[value.dtype.str, value.ndim]
    return kind + b"".join(binary_value(int(size)) for size in value.shape) + value.tobytes()


def text_value(value):
    if isinstance(value, bool):
        return "T " if value else "F "
    if isinstance(value, int | float):
        return f"{value!s} "
    if isinstance(value, list) or value.ndim == 1:
        return " [ " + "".join(f"{each} " for each in value) + "]\n"
    return " [" + "".join("\n  " + "".join(f"{each} " for each in row) for row in value) + "]\n"


def network(lines, components, binary=True):
    """Return ``final.raw``: configuration lines, and each component's type and fields by name."""
    value = binary_value if binary else lambda each: text_value(each).encode()
    end = b"" if binary else b"\n"
    parts = [b"\0B" if binary else b"", b"<Nnet3> \n", *(line.encode() + b"\n" for line in lines), b"\n"]
    parts += [b"<NumComponents> ", value(len(components)), end]
    for name, (kind, fields) in components.items():
        parts.append(f"<ComponentName> {name} <{kind}> ".encode())
        for token, entry in fields.items():
            parts.append(f"{token} ".encode())
            parts += [value(each) for each in (entry if isinstance(entry, tuple) else (entry,))]
        parts += [f"</{kind}> ".encode(), end]
    return b"".join([*parts, b"</Nnet3> ", end])


def matrix(value, binary=True):
    """Return a file that holds one matrix."""
    return b"\0B" + binary_value(value) if binary else text_value(value).encode()


def write_directory(folder, lines, components, words, embedding, *, bos, eos, oov=None, features=None, binary=True):
    """Write a directory in the form of Kaldi's training.

    Args:
        folder: Where to.
        lines: The network's configuration.
        components: The network's components.
        words: By id.
        embedding: float32 [words, dim], or [features, dim] with features.
        bos: Id of the word that begins a sentence.
        eos: Id of the word that ends it.
        oov: Word that stands for unknown ones.
        features: Of each word its ``{feature: value}``.
        binary: Write network and matrix in binary.
    """
    (folder / "config").mkdir(parents=True)
    (folder / "final.raw").write_bytes(network(lines, components, binary))
    name = "word_embedding.final.mat" if features is None else "feat_embedding.final.mat"
    (folder / name).write_bytes(matrix(embedding, binary))
    if features is not None:
        rows = (
            f"{number}\t" + " ".join(f"{feature} {value}" for feature, value in each.items()) + "\n"
            for number, each in enumerate(features)
        )
        (folder / "word_feats.txt").write_text("".join(rows))
    chosen = {"bos": (bos, 1), "eos": (eos, 2), "brk": (len(words) - 1, 3)}
    options = "".join(f"--{name}-symbol={it} " for name, (it, default) in chosen.items() if it != default)
    (folder / "special_symbol_opts.txt").write_text(options + "\n")
    (folder / "config" / "words.txt").write_text("".join(f"{word} {it}\n" for it, word in enumerate(words)))
    if oov is not None:
        (folder / "config" / "oov.txt").write_text(f"{oov}\n")
    return folder
