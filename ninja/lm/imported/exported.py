"""Archives of ``torch.export.save``: their graph is read and run here, operator by operator; see docs/networks.md.

torch's own reader unpickles parts of an archive and evaluates expressions in it, so that a file may run any code. An
archive holds its graph as JSON too, and its weights as plain bytes: that is all that is read here. Of operators only
torch's own (``torch.ops.aten``, but for those that touch files) and arithmetic on sizes run; others are refused.

Source: torch/_export/serde/schema.py, schema version 8.
"""

from __future__ import annotations

import json
import math
import operator
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ninja.errors import ModelError, NinjaError
from ninja.lm.compute import device_of, reason
from ninja.lm.imported.lazy import HistoryLM, StepLM, language_model
from ninja.lm.imported.network import HistoryNetwork, State, StepNetwork, state_part
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import BESIDE, Words, find

SCHEMA = 8
EXPECTED = "expected (word [batch], states …) -> (scores, states …), or (words [batch, time]) -> scores"
Json = dict[str, Any]
_ATEN = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)")
_FORBIDDEN = ("save", "from_file")
_ARITHMETIC = ("add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "truediv", "getitem")
_DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16,
    7: torch.float32, 8: torch.float64, 12: torch.bool, 13: torch.bfloat16,
}  # fmt: skip
_PLAIN = {f"as_{kind}" for kind in ("int", "ints", "float", "floats", "string", "strings", "bool", "bools")}


def open_exported(path: str, options: LoadOptions) -> StepLM | HistoryLM:
    """Open an archive of ``torch.export.save`` as a language model, see `ninja.lm.load`.

    Raises:
        ModelError: The archive is damaged, has operators that we do not run, or other inputs and outputs.
    """
    device = device_of(options.device)
    try:
        program, inside = _read(path, device)
        shape = program.sizes[program.inputs[0]]
        network: StepNetwork | HistoryNetwork
        if len(shape) == 2 and len(program.inputs) == 1 and not isinstance(shape[1], int):
            batch = shape[0] if isinstance(shape[0], int) else None
            network = HistoryNetwork(lambda words: program([words])[0], batch=batch, path=path)
        else:
            network = _steps(program)
        return language_model(network, Words.of(find(path, options.words, inside), path), options, path)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"a truncated or damaged archive ({error}); copy it again", path) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, NinjaError):
            raise
        message = f"an archive that is not as torch.export writes it ({type(error).__name__}: {error})"
        raise ModelError(f"{message}; export it again", path) from error


class Program:
    """A graph of operators with its weights."""

    def __init__(self, model: Json, weights: dict[str, torch.Tensor], path: str, device: torch.device) -> None:
        """Take over an archive's JSON and its weights: parameters, buffers and constants by name.

        Raises:
            ModelError: The graph needs what is not there, or has an operator that we do not run.
        """
        self.path = path
        self._device = device
        module = model["graph_module"]
        graph, signature = module["graph"], module["signature"]
        self.inputs: list[str] = []
        self._weights: dict[str, torch.Tensor] = {}
        for spec in signature["input_specs"]:
            [(kind, value)] = spec.items()
            if kind == "user_input":
                self.inputs.append(value["arg"]["as_tensor"]["name"])
                continue
            name = value.get("parameter_name") or value.get("buffer_name") or value.get("tensor_constant_name")
            if name not in weights:
                raise ModelError(f"its graph needs the {kind} {name!r}, which is not in the archive", path)
            self._weights[value["arg"]["name"]] = weights[name].to(device)
        if any(set(spec) != {"user_output"} for spec in signature["output_specs"]):
            raise ModelError("the program changes its buffers; a language model must give its state as an output", path)
        self.outputs: list[str] = [each["as_tensor"]["name"] for each in graph["outputs"]]
        if not self.inputs or not self.outputs:
            raise ModelError("a program without inputs or outputs; a language model reads words and gives scores", path)
        tensors = graph["tensor_values"]
        self.sizes = {name: _sizes(value) for name, value in tensors.items()}
        self.dtypes = {name: _DTYPES.get(value["dtype"], torch.float32) for name, value in tensors.items()}
        self._nodes = [(node, self._function(node["target"])) for node in graph["nodes"]]

    def __call__(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """Run the graph."""
        known: dict[str, Any] = {**self._weights, **dict(zip(self.inputs, values, strict=True))}
        for node, function in self._nodes:
            positional = [self._value(each["arg"], known) for each in node["inputs"] if each["kind"] != 2]
            keywords = {each["name"]: self._value(each["arg"], known) for each in node["inputs"] if each["kind"] == 2}
            try:
                result = function(*positional, **keywords)
            except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
                raise ModelError(f"{node['target']} fails: {reason(error)}", self.path) from error
            names = [name for each in node["outputs"] for name in _names(each)]
            known |= zip(names, result if isinstance(result, tuple | list) else [result], strict=False)
        return [self._one({"name": name}, known) for name in self.outputs]

    def _function(self, target: str) -> Callable[..., Any]:
        """Return the operator of a name, if it is one of those we run."""
        found = _ATEN.fullmatch(target)
        if found and found[1] not in _FORBIDDEN and hasattr(torch.ops.aten, found[1]):
            packet = getattr(torch.ops.aten, found[1])
            if found[2] in getattr(packet, "overloads", list)():
                return getattr(packet, found[2])
        if target.startswith("_operator.") and target[10:] in _ARITHMETIC:
            return getattr(operator, target[10:])
        raise ModelError(f"the operator {target!r} is none that Ninja runs: torch's own, torch.ops.aten", self.path)

    def _value(self, argument: dict[str, Any], known: Json) -> Any:
        """Return an argument's value: a constant of the graph, or the result of an operator."""
        [(kind, value)] = argument.items()
        if kind in _PLAIN:
            return value
        if kind == "as_none":
            return None
        if kind in ("as_tensor", "as_optional_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"):
            return self._one(value, known)
        if kind in ("as_tensors", "as_optional_tensors", "as_sym_ints"):
            return [self._one(each, known) for each in value]
        if kind == "as_device":
            return self._device
        if kind == "as_scalar_type" and value in _DTYPES:
            return _DTYPES[value]
        if kind == "as_memory_format":
            return torch.contiguous_format if value == 1 else torch.preserve_format
        if kind == "as_layout" and value == 7:
            return torch.strided
        raise ModelError(f"an argument {kind} {value!r}, which Ninja does not run", self.path)

    def _one(self, value: dict[str, Any], known: Json) -> Any:
        [(kind, inner)] = list(value.items())[:1]
        if kind in ("as_int", "as_bool", "as_float"):
            return inner
        if kind == "as_none":
            return None
        name = inner["name"] if kind == "as_tensor" else inner
        if name not in known:
            raise ModelError(f"its graph uses {name!r} before it is made", self.path)
        return known[name]


def _steps(program: Program) -> StepNetwork:
    """Return a program with a state as a network."""
    path = program.path
    word, *states = program.inputs
    if len(program.sizes[word]) != 1 or len(program.outputs) != len(program.inputs):
        found = f"inputs {[f'{n} {program.sizes[n]}' for n in program.inputs]}, {len(program.outputs)} outputs"
        raise ModelError(f"{found}; {EXPECTED}", path)
    [batch] = program.sizes[word]
    parts = [state_part(name, program.sizes[name], program.dtypes[name], batch, path) for name in states]

    def run(words: torch.Tensor, state: State) -> tuple[torch.Tensor, list[torch.Tensor]]:
        score, *after = program([words, *state])
        return score, after

    return StepNetwork(run, parts, batch=batch if isinstance(batch, int) else None, path=path)


def _read(path: str, device: torch.device) -> tuple[Program, str | None]:
    """Read an archive: its program, and the vocabulary inside, if there is one."""
    with zipfile.ZipFile(path) as archive:
        if any(each.compress_type for each in archive.infolist()):
            raise ModelError("packed anew; give the archive as torch.export.save wrote it", path)
        names = archive.namelist()
        models = [name for name in names if re.fullmatch(r"[^/]*/models/[^/]+\.json", name)]
        if len(models) != 1:
            raise ModelError(f"{len(models)} programs in one archive; a language model is one", path)
        root, _, name = models[0].split("/")
        model = json.loads(archive.read(models[0]))
        version = model["schema_version"]["major"]
        if version != SCHEMA:
            message = f"version {version} of torch.export's archives; Ninja reads version {SCHEMA}: export it again"
            raise ModelError(message, path)
        weights: dict[str, torch.Tensor] = {}
        for folder in ("weights", "constants"):
            config = f"{root}/data/{folder}/{name[:-5]}_{folder}_config.json"
            entries = json.loads(archive.read(config))["config"] if config in names else {}
            for key, entry in entries.items():
                weights[key] = _tensor(key, entry, archive, f"{root}/data/{folder}/{entry['path_name']}", path)
        extra = f"{root}/extra/{BESIDE}"
        inside = archive.read(extra).decode() if extra in names else None
    return Program(model, weights, path, device), inside


def _tensor(name: str, entry: Json, archive: zipfile.ZipFile, member: str, path: str) -> torch.Tensor:
    """Read one weight: bytes, and a window on them."""
    meta = entry["tensor_meta"]
    if entry["use_pickle"] or meta is None or meta["dtype"] not in _DTYPES:
        raise ModelError(f"the weight {name!r} is pickled, or of an unknown type; Ninja unpickles nothing", path)
    content = archive.read(member)
    dtype = _DTYPES[meta["dtype"]]
    whole = torch.from_numpy(np.frombuffer(content, np.uint8).copy()).view(dtype)
    sizes, strides = ([each["as_int"] for each in meta[key]] for key in ("sizes", "strides"))
    offset = meta["storage_offset"]["as_int"]
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    beyond = 0 not in sizes and (last >= len(whole) or math.prod(sizes) > len(whole))
    if min([offset, *sizes, *strides]) < 0 or beyond:
        raise ModelError(f"the weight {name!r} needs more than its {len(content)} bytes; copy it again", path)
    return whole.as_strided(sizes, strides, offset)


def _sizes(value: Json) -> list[int | str]:
    """Return a tensor's sizes: integers, or the expressions that name those which may change."""
    return [each["as_int"] if "as_int" in each else each["as_expr"]["expr_str"] for each in value["sizes"]]


def _names(output: Json) -> list[str]:
    """Return under which names an operator's result is known."""
    [(kind, value)] = output.items()
    if kind == "as_tensor":
        return [value["name"]]
    if kind == "as_tensors":
        return [each["name"] for each in value]
    return [value["as_name"]] if isinstance(value, dict) and "as_name" in value else []
