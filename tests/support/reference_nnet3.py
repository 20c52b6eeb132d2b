"""Slow implementation of the nnet3 reader and executor: each node and time of a sentence is evaluated on request.

It parses the configuration lines itself; components are given by type and fields, as for `nnet3_writer`.
"""

import re

import numpy as np


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def blocks(value, width):
    return value.reshape(-1, width)


def apply(kind, fields, x):
    """Return the output of a component for a vector, float64."""
    kind = kind.removesuffix("Component")
    if kind in ("NaturalGradientAffine", "Affine", "FixedAffine", "Tdnn"):
        bias = fields["<BiasParams>"]
        return fields["<LinearParams>"].astype(float) @ x + (bias.astype(float) if bias.size else 0)
    if kind == "Linear":
        return fields["<Params>"].astype(float) @ x
    if kind == "RectifiedLinear":
        return np.maximum(x, 0)
    if kind == "Sigmoid":
        return sigmoid(x)
    if kind == "Tanh":
        return np.tanh(x)
    if kind in ("Softmax", "LogSoftmax"):
        x = x - x.max()  # to avoid overflow of exp
        logprob = x - np.log(np.exp(x).sum())
        return logprob if kind == "LogSoftmax" else np.exp(logprob)
    if kind == "Normalize":
        rms = fields["<TargetRms>"]
        result = []
        for block in blocks(x, fields.get("<BlockDim>", len(x))):
            power = max(2.0**-66, block @ block / (len(block) * rms**2))
            result += [*(block / np.sqrt(power))]
            if fields["<AddLogStddev>"]:
                result.append(np.log(np.sqrt(power)) + np.log(rms))
        return np.array(result)
    if kind == "BatchNorm":
        mean, variance = fields["<StatsMean>"].astype(float), fields["<StatsVar>"].astype(float)
        scale = fields["<TargetRms>"] / np.sqrt(variance + fields["<Epsilon>"])
        return np.concatenate([(block - mean) * scale for block in blocks(x, len(mean))])
    if kind in ("PerElementScale", "NaturalGradientPerElementScale"):
        return x * fields["<Params>"]
    if kind == "FixedScale":
        return x * fields["<Scales>"]
    if kind == "FixedBias":
        return x + fields["<Bias>"]
    if kind == "PerElementOffset":
        return np.concatenate([block + fields["<Offsets>"] for block in blocks(x, len(fields["<Offsets>"]))])
    if kind == "ScaleAndOffset":
        scale = np.array(
            [value if abs(value) >= 1e-4 else 1e-4 if value >= 0 else -1e-4 for value in fields["<Scales>"]]
        )
        return np.concatenate([block * scale + fields["<Offsets>"] for block in blocks(x, len(scale))])
    if kind == "ElementwiseProduct":
        return blocks(x, fields["<OutputDim>"]).prod(0)
    if kind == "SumGroup":
        return np.array([part.sum() for part in np.split(x, np.cumsum(fields["<Sizes>"])[:-1])])
    if kind == "Permute":
        return x[fields["<ColumnMap>"]]
    if kind in ("NoOp", "Dropout", "GeneralDropout", "ClipGradient"):
        return x
    if kind == "BackpropTruncation":
        return x * fields["<Scale>"]
    if kind == "LstmNonlinearity":
        peephole = fields["<Params>"].astype(float)
        i, f, c, o, before = x.reshape(5, -1)
        cell = sigmoid(f + peephole[1] * before) * before + sigmoid(i + peephole[0] * before) * np.tanh(c)
        return np.concatenate((cell, sigmoid(o + peephole[2] * cell) * np.tanh(cell)))
    if kind == "GruNonlinearity":
        weight = fields["<w_h>"].astype(float)
        cells, width = weight.shape
        z, r, part, before = np.split(x[: 3 * cells + width], np.cumsum([cells, width, cells]))
        h = np.tanh(part + weight @ (r * x[-width:]))
        return np.concatenate((h, (1 - z) * h + z * before))
    if kind == "OutputGruNonlinearity":
        z, part, before = x.reshape(3, -1)
        h = np.tanh(part + fields["<w_h>"] * before)
        return np.concatenate((h, (1 - z) * h + z * before))
    raise AssertionError(kind)


def output_width(kind, fields):
    """Return the size of a component's output."""
    for token in ("<OutputDim>", "<Dim>", "<InputDim>"):
        if token in fields:
            blocks_of = fields.get("<BlockDim>", fields[token])
            return fields[token] + (fields[token] // blocks_of if fields.get("<AddLogStddev>") else 0)
    (value,) = (fields[token] for token in WIDE if token in fields)
    return 2 * (value.shape[1] if kind.startswith("Lstm") else len(value)) if "Nonlinearity" in kind else len(value)


WIDE = ("<LinearParams>", "<Params>", "<w_h>", "<Scales>", "<Bias>", "<Offsets>", "<Sizes>", "<ColumnMap>")


class Twin:
    """A network over one sentence."""

    def __init__(self, lines, components, inputs):
        """Store the network and the embeddings of a sentence's words, [time, dim]."""
        self.lines = {re.search(r" name=(\S+)", line)[1]: line for line in lines}
        self.components = components
        self.inputs = inputs
        self.cache = {}

    def outputs(self):
        """Return the output after each word, float64 [time, dim]."""
        return np.array([self.node("output", time) for time in range(len(self.inputs))])

    def node(self, name, time):
        """Return a node's value; None if it is undefined."""
        if time < -20:
            return None
        if (name, time) not in self.cache:
            self.cache[name, time] = self._node(name, time)
        return self.cache[name, time]

    def _node(self, name, time):
        line = self.lines[name]
        if line.startswith("input-node"):
            return self.inputs[time].astype(float) if 0 <= time < len(self.inputs) else None
        if line.startswith("dim-range-node"):
            source, first, dim = (re.search(rf" {key}=(\S+)", line)[1] for key in ("input-node", "dim-offset", "dim"))
            whole = self.node(source, time)
            return None if whole is None else whole[int(first) : int(first) + int(dim)]
        descriptor = re.search(r" input=(.*?)( objective=.*)?$", line)[1]
        value = self.descriptor(descriptor, time)
        component = re.search(r" component=(\S+)", line)
        return value if value is None or component is None else apply(*self.components[component[1]], value)

    def descriptor(self, text, time):
        """Return a descriptor's value; None if it is undefined."""
        if "(" not in text:
            return self.node(text.strip(), time)
        function, arguments = split(text)
        if function == "Const":
            return np.full(int(arguments[1]), float(arguments[0]))
        if function == "Offset":
            return self.descriptor(arguments[0], time + int(arguments[1]))
        if function == "Scale":
            value = self.descriptor(arguments[1], time)
            return None if value is None else float(arguments[0]) * value
        if function == "IfDefined":
            value = self.descriptor(arguments[0], time)
            return np.zeros(self.width(arguments[0])) if value is None else value
        values = [self.descriptor(argument, time) for argument in arguments]
        if any(value is None for value in values):
            return None
        return np.concatenate(values) if function == "Append" else np.sum(values, 0)

    def width(self, text):
        """Return the size of a descriptor."""
        if "(" in text:
            function, arguments = split(text)
            if function == "Append":
                return sum(self.width(argument) for argument in arguments)
            return int(arguments[1]) if function == "Const" else self.width(arguments[function == "Scale"])
        line = self.lines[text.strip()]
        if " dim=" in line:
            return int(re.search(r" dim=(\S+)", line)[1])
        return output_width(*self.components[re.search(r" component=(\S+)", line)[1]])


def split(text):
    """Return a descriptor's name and its arguments."""
    function, inside = re.fullmatch(r"\s*(\w+)\((.*)\)\s*", text).groups()
    arguments, depth = [""], 0
    for letter in inside:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            arguments.append("")
        else:
            arguments[-1] += letter
    return function, arguments
