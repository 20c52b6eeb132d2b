"""Random small nnet3 networks of all components, connected in all ways that a language model allows."""

import numpy as np
from hypothesis import strategies as st

DIM = 4
STATISTICS = {"ValueAvg": np.ones(3, np.float32), "Count": np.float64(335360), "SelfRepairScale": 1e-5}


def reals(random, *shape):
    return random.normal(size=shape).astype(np.float32)


class Builder:
    """Builder of a network whose nodes all have size `DIM`."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.lines = [f"input-node name=input dim={DIM}"]
        self.components = {}
        self.nodes = ["input"]
        self.later = []  # nodes whose past values other nodes, including earlier ones, may use

    def component(self, kind, **fields):
        name = f"c{len(self.components)}"
        self.components[name] = f"{kind}Component", {f"<{token}>": value for token, value in fields.items()}
        return name

    def affine(self, rows, columns, kind="NaturalGradientAffine"):
        weight, bias = reals(self.random, rows, columns), reals(self.random, rows)
        if kind == "Linear":
            return self.component(kind, **{"LearningRate": 0.1, "Params": weight, "RankInOut": (20, 80)})
        fields = {"TimeOffsets": [0]} if kind == "Tdnn" else {}
        if kind == "Tdnn" and self.random.random() < 0.5:
            bias = bias[:0]
        return self.component(kind, LearningRate=0.1, **fields, LinearParams=weight, BiasParams=bias, Alpha=4.0)

    def node(self, component, text, name=None):
        name = name or f"n{len(self.lines)}"
        self.lines.append(f"component-node name={name} component={component} input={text}")
        return name

    def slice(self, node, first, dim):
        name = f"n{len(self.lines)}.r"
        self.lines.append(f"dim-range-node name={name} input-node={node} dim-offset={first} dim={dim}")
        return name

    def descriptor(self, draw):
        """Return a descriptor of size `DIM` that depends on the current input."""
        now = draw(st.sampled_from(self.nodes))
        terms = [now]
        for _ in range(draw(st.integers(0, 2))):
            past = draw(st.sampled_from(self.nodes + self.later))
            steps = draw(st.integers(1, 3))
            terms.append(
                draw(
                    st.sampled_from(
                        [
                            f"IfDefined(Offset({past}, -{steps}))",
                            f"Offset(IfDefined({past}), -{steps})",
                            f"Scale(0.5, IfDefined(Offset({past}, -{steps})))",
                            f"IfDefined(Sum(Offset({past}, -{steps}), Scale(-2.0, Offset({past}, -{steps}))))",
                            f"Const(0.25, {DIM})",
                            f"IfDefined({now})",
                            f"Scale(-1.5, {now})",
                        ]
                    )
                )
            )
        return terms[0] if len(terms) == 1 else f"Sum({', '.join(terms)})"

    def add(self, draw, name=None, kind=None):
        """Add one node, or several that belong together."""
        random = self.random
        kind = kind or draw(st.sampled_from(KINDS))
        text = self.descriptor(draw)
        if kind in ("Affine", "NaturalGradientAffine", "FixedAffine", "Linear", "Tdnn"):
            parts = [text, *(self.descriptor(draw) for _ in range(draw(st.integers(0, 2))))]
            whole = f"Append({', '.join(parts)})" if len(parts) > 1 else text
            node = self.node(self.affine(DIM, DIM * len(parts), kind), whole, name)
        elif kind in ("RectifiedLinear", "Sigmoid", "Tanh", "Softmax", "LogSoftmax"):
            node = self.node(self.component(kind, Dim=DIM, **STATISTICS), text, name)
        elif kind in ("NoOp", "Dropout", "ClipGradient"):
            node = self.node(self.component(kind, Dim=DIM, DropoutProportion=0.1, TestMode=False), text, name)
        elif kind == "GeneralDropout":
            fields = {"Dim": DIM, "BlockDim": DIM, "TimePeriod": 0, "DropoutProportion": 0.1}
            fields |= {"TestMode": (), "Continuous": ()}  # flags without a value
            node = self.node(self.component(kind, **fields), text, name)
        elif kind == "BackpropTruncation":
            scale = draw(st.sampled_from([1.0, 0.5]))
            node = self.node(self.component(kind, Dim=DIM, Scale=scale, NumElementsClipped=np.float64(3)), text, name)
        elif kind == "Normalize":
            block = draw(st.sampled_from([{}, {"BlockDim": 2}]))
            log = draw(st.booleans())
            fields = {draw(st.sampled_from(["Dim", "InputDim"])): DIM, **block, "TargetRms": 0.5, "AddLogStddev": log}
            node = self.node(self.component(kind, **fields), text, None if log else name)
            if log:
                node = self.node(self.affine(DIM, DIM + (2 if block else 1)), node, name)
        elif kind == "BatchNorm":
            width = draw(st.sampled_from([2, DIM]))
            mean, variance = reals(random, width), reals(random, width) ** 2
            fields = {"Epsilon": 1e-3, "TargetRms": 0.5, "TestMode": False, "Count": 20.0}
            fields |= {"StatsMean": mean, "StatsVar": variance}
            node = self.node(self.component(kind, Dim=DIM, BlockDim=width, **fields), text, name)
        elif kind in ("PerElementScale", "NaturalGradientPerElementScale"):
            node = self.node(self.component(kind, LearningRate=0.1, Params=reals(random, DIM)), text, name)
        elif kind == "FixedScale":
            node = self.node(self.component(kind, Scales=reals(random, DIM)), text, name)
        elif kind == "FixedBias":
            node = self.node(self.component(kind, Bias=reals(random, DIM)), text, name)
        elif kind == "PerElementOffset":
            fields = draw(st.sampled_from([{"Offsets": reals(random, DIM)}, {"Offsets": reals(random, 2), "Dim": DIM}]))
            node = self.node(self.component(kind, LearningRate=0.1, **fields), text, name)
        elif kind == "ScaleAndOffset":
            scale = reals(random, 2) * draw(st.sampled_from([np.float32(1), np.float32(1e-6)]))
            node = self.node(self.component(kind, Dim=DIM, Scales=scale, Offsets=reals(random, 2), Rank=20), text, name)
        elif kind == "ElementwiseProduct":
            inside = f"Append({text}, {self.descriptor(draw)})"
            node = self.node(self.component(kind, InputDim=2 * DIM, OutputDim=DIM), inside, name)
        elif kind == "SumGroup":
            inside = f"Append({text}, {self.descriptor(draw)})"
            node = self.node(self.component(kind, Sizes=[1, 3, 2, 2]), inside, name)
        elif kind == "Permute":
            node = self.node(self.component(kind, ColumnMap=[2, 0, 3, 1]), text, name)
        elif kind == "Range":
            wide = self.node(self.affine(7, DIM), text)
            middle = self.slice(wide, 2, 5)
            node = self.node(self.component("NoOp", Dim=DIM), self.slice(middle, 1, DIM), name)
        else:
            node = self.cell(kind, text, name)
        self.nodes.append(node)

    def cell(self, kind, text, name):
        """Add a recurrent layer of 2 cells, connected as in Kaldi's own configurations."""
        cell = f"n{len(self.lines)}.cell"
        if kind == "LstmNonlinearity":
            gates = self.node(self.affine(8, DIM + 2), f"Append({text}, IfDefined(Offset({cell}.m, -1)))")
            component = self.component(kind, LearningRate=0.1, Params=reals(self.random, 3, 2), UseDropout=False)
            self.node(component, f"Append({gates}, IfDefined(Offset({cell}.trunc, -2)))", cell)
            trunc = self.component("BackpropTruncation", Dim=2, Scale=1.0)
            self.lines.append(f"dim-range-node name={cell}.c input-node={cell} dim-offset=0 dim=2")
            self.node(trunc, f"{cell}.c", f"{cell}.trunc")
        elif kind == "GruNonlinearity":
            width = 1 if len(self.lines) % 2 else 2
            parts = self.node(self.affine(4 + width, DIM), text)
            weight = reals(self.random, 2, width)
            component = self.component(kind, LearningRate=0.1, CellDim=2, RecurrentDim=width, w_h=weight)
            past = f"IfDefined(Offset({cell}.m, -1))" + (f", IfDefined(Offset({cell}.s, -1))" if width < 2 else "")
            self.node(component, f"Append({parts}, {past})", cell)
            self.lines.append(f"dim-range-node name={cell}.s input-node={cell} dim-offset=3 dim=1")
        else:
            parts = self.node(self.affine(4, DIM), text)
            component = self.component(kind, LearningRate=0.1, CellDim=2, w_h=reals(self.random, 2))
            self.node(component, f"Append({parts}, IfDefined(Offset({cell}.m, -1)))", cell)
        self.lines.append(f"dim-range-node name={cell}.m input-node={cell} dim-offset=2 dim=2")
        return self.node(self.affine(DIM, 2), f"{cell}.m", name)


KINDS = (
    *("Affine", "NaturalGradientAffine", "FixedAffine", "Linear", "Tdnn", "RectifiedLinear", "Sigmoid", "Tanh"),
    *("Softmax", "LogSoftmax", "NoOp", "Dropout", "ClipGradient", "GeneralDropout", "BackpropTruncation", "Normalize"),
    *("BatchNorm", "PerElementScale", "NaturalGradientPerElementScale", "FixedScale", "FixedBias"),
    *("PerElementOffset", "ScaleAndOffset", "ElementwiseProduct", "SumGroup", "Permute", "Range"),
    *("LstmNonlinearity", "GruNonlinearity", "OutputGruNonlinearity"),
)


@st.composite
def networks(draw):
    builder = Builder(draw(st.integers(0, 2**32 - 1)))
    builder.later = ["x1", "x2"]
    builder.add(draw)
    builder.add(draw, "x1")
    builder.add(draw)
    builder.add(draw, "x2")
    output = builder.descriptor(draw)
    builder.lines.append(f"output-node name=output input={output} objective=linear")
    return builder.lines, builder.components
