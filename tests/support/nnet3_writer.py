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
        return " [ " + "".join(f"{number} " for number in value) + "]\n"
    return " [" + "".join("\n  " + "".join(f"{number} " for number in row) for row in value) + "]\n"


def network(lines, components, binary=True):
    """Return ``final.raw``: configuration lines, and each component's type and fields by name."""
    encode = binary_value if binary else lambda value: text_value(value).encode()
    end = b"" if binary else b"\n"
    parts = [b"\0B" if binary else b"", b"<Nnet3> \n", *(line.encode() + b"\n" for line in lines), b"\n"]
    parts += [b"<NumComponents> ", encode(len(components)), end]
    for name, (kind, fields) in components.items():
        parts.append(f"<ComponentName> {name} <{kind}> ".encode())
        for token, entry in fields.items():
            parts.append(f"{token} ".encode())
            parts += [encode(value) for value in (entry if isinstance(entry, tuple) else (entry,))]
        parts += [f"</{kind}> ".encode(), end]
    return b"".join([*parts, b"</Nnet3> ", end])


def matrix(value, binary=True):
    """Return the content of a file with one matrix."""
    return b"\0B" + binary_value(value) if binary else text_value(value).encode()


def write_directory(folder, lines, components, words, embedding, *, bos, eos, oov=None, features=None, binary=True):
    """Write a directory in the form of Kaldi's training.

    Args:
        folder: Output directory.
        lines: The network's configuration.
        components: The network's components.
        words: Words, in the order of their ids.
        embedding: float32 [words, dim], or [features, dim] with features.
        bos: Id of the word that begins a sentence.
        eos: Id of the word that ends it.
        oov: Word that replaces unknown words.
        features: ``{feature: value}`` of each word.
        binary: Write the network and the matrix in binary.
    """
    (folder / "config").mkdir(parents=True)
    (folder / "final.raw").write_bytes(network(lines, components, binary))
    name = "word_embedding.final.mat" if features is None else "feat_embedding.final.mat"
    (folder / name).write_bytes(matrix(embedding, binary))
    if features is not None:
        rows = (
            f"{number}\t" + " ".join(f"{feature} {value}" for feature, value in values.items()) + "\n"
            for number, values in enumerate(features)
        )
        (folder / "word_feats.txt").write_text("".join(rows))
    symbols = {"bos": (bos, 1), "eos": (eos, 2), "brk": (len(words) - 1, 3)}
    options = "".join(
        f"--{name}-symbol={word_id} " for name, (word_id, default) in symbols.items() if word_id != default
    )
    (folder / "special_symbol_opts.txt").write_text(options + "\n")
    (folder / "config" / "words.txt").write_text("".join(f"{word} {word_id}\n" for word_id, word in enumerate(words)))
    if oov is not None:
        (folder / "config" / "oov.txt").write_text(f"{oov}\n")
    return folder
