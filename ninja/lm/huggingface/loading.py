"""Open Hugging Face models: a directory, without network access or code from it, or an object in memory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ninja.errors import DependencyError, ModelError
from ninja.libraries import needed_for
from ninja.lm.compute import device_of, reason
from ninja.lm.huggingface.causal import CausalLM
from ninja.lm.huggingface.masked import MaskedLM
from ninja.lm.huggingface.piece_network import open_pieces
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.protocol import LanguageModel, LoadOptions, TextTransform

CONFIG = "config.json"
ADAPTER = "adapter_config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
# Settings of tokenizers, and the keys whose values some version of the library may open as files.
TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
_NAMES_FILES = re.compile(r"(?:.*_)?(?:files?|paths?|dir|dic|spm|weights|option)|vocab|merges|init_inputs")
_NOT_OPENED = ("name_or_path", "_name_or_path", "special_tokens_map_file")  # origins, which are never opened
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json")


def open_directory(path: str, options: LoadOptions) -> LanguageModel:
    """Open a language model.

    A causal model becomes a `CausalLM`; a masked model a `MaskedLM`, which only scores the sentences of n-best lists.
    ``<s>`` is the tokenizer's ``bos_token``, or its ``eos_token`` if it has none; ``</s>`` is its ``eos_token``.
    The ids of the configuration are the fallback; a causal model without either is rejected.

    Raises:
        ModelError: A file is missing or damaged, or the type of model is not supported.
        OptionError: Torch cannot use the device.
        DependencyError: The transformers library, or a library it needs for this directory, is not installed.
    """
    config = _check_directory(path)
    with needed_for("a Hugging Face model", path):
        import transformers
    masked = _is_masked(config, path)
    device = device_of(options.device)
    with _convert_errors(path, transformers.utils.logging):
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        family: Any = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
        model, report = family.from_pretrained(
            path,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=any(os.path.isfile(os.path.join(path, name)) for name in WEIGHTS[:2]),
            dtype="float32",
            output_loading_info=True,
        )
    lacking = sorted(map(str, report["missing_keys"])) + sorted(str(key[0]) for key in report["mismatched_keys"])
    if lacking:  # the library would initialise them at random
        raise ModelError(f"its weights lack {', '.join(lacking)[:200]}, which {type(model).__name__} needs", path)
    model.eval().to(device)
    return (_masked if masked else _causal)(model, tokenizer, options, path)


def wrap(
    model: Any,
    tokenizer: Any,
    *,
    normalize: bool | None = None,
    max_batch: int | None = None,
    text_transform: TextTransform | None = None,
) -> LanguageModel:
    """Make a language model from a network in memory and its tokenizer, both of the transformers library.

    Any torch module that takes ``input_ids`` and returns ``logits`` works, also quantised or adapted (PEFT) ones; it
    stays on its device and is set to evaluation mode. A masked model only scores the sentences of n-best lists.

    Args:
        model: The network. Its ``config``, if any, gives the model type, longest input and special pieces.
        tokenizer: Its tokenizer, of the same library.
        normalize: False keeps the network's unnormalised scores; None = normalised.
        max_batch: Most histories per pass of the network; None = all of a call.
        text_transform: ``"lower"`` for lattices in upper case; None = words unchanged.

    Raises:
        ModelError: The module returns no logits, or no piece ends a text.
    """
    model.eval()
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    architectures = getattr(config, "architectures", None) or [type(model).__name__]
    masked = kind is not None and _is_masked({"model_type": kind, "architectures": architectures}, type(model).__name__)
    options = LoadOptions(normalize=normalize, max_batch=max_batch, text_transform=text_transform)
    return (_masked if masked else _causal)(model, tokenizer, options)


def _causal(model: Any, tokenizer: Any, options: LoadOptions, path: str | None = None) -> CausalLM:
    config = getattr(model, "config", None)
    eos = _first_id(tokenizer.eos_token_id, getattr(config, "eos_token_id", None))
    bos = _first_id(tokenizer.bos_token_id, getattr(config, "bos_token_id", None), eos)
    if bos is None or eos is None:
        raise ModelError("neither its tokenizer nor its configuration names a piece that ends a text (eos_token)", path)
    pieces = open_pieces(model, bos, options, path)
    return CausalLM(
        pieces, Spelling(tokenizer, bos, eos, pieces.num_pieces, options.text_transform, options.multi_char, path)
    )


def _masked(model: Any, tokenizer: Any, options: LoadOptions, path: str | None = None) -> MaskedLM:
    before = _first_id(tokenizer.cls_token_id, tokenizer.bos_token_id)
    after = _first_id(tokenizer.sep_token_id, tokenizer.eos_token_id)
    if before is None or after is None or tokenizer.mask_token_id is None:
        raise ModelError(
            "its tokenizer lacks a mask piece, or pieces that begin and end a sentence (mask, cls, sep)", path
        )
    num_pieces = model.get_input_embeddings().weight.shape[0]
    spelling = Spelling(tokenizer, before, after, num_pieces, options.text_transform, options.multi_char, path)
    longest = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
    longest = min(longest, tokenizer.model_max_length)  # some models reserve the first positions
    return MaskedLM(model, spelling, (before, after, tokenizer.mask_token_id), longest, options.max_batch)


def _check_directory(path: str) -> dict[str, Any]:
    """Return the configuration of a directory after checking that all needed files exist."""
    try:
        config = _json(path, CONFIG)
    except FileNotFoundError as error:
        raise ModelError(f"{CONFIG} is missing; give a directory as `save_pretrained` writes it", path) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError("no model_type; is it of the transformers library?", os.path.join(path, CONFIG))
    if os.path.exists(os.path.join(path, ADAPTER)):
        raise ModelError(f"{ADAPTER} names another model to adapt; merge the two (merge_and_unload) first", path)
    _check_kernels(config, path)
    if config.get("configuration_files") or config.get("transformers_weights", WEIGHTS[0]) not in (None, *WEIGHTS):
        key = "configuration_files" if config.get("configuration_files") else "transformers_weights"
        raise ModelError(f"{CONFIG} names other files in {key}; remove it", path)
    for name in TOKENIZER_SETTINGS:
        if os.path.exists(os.path.join(path, name)):
            _check_named_files(_json(path, name), name, path)
    for purpose, names in (("weights", WEIGHTS), ("tokenizer", TOKENIZERS)):
        if not any(os.path.isfile(os.path.join(path, name)) for name in names):
            raise ModelError(f"no {purpose}; the directory needs one of {', '.join(names)}", path)
    for name in WEIGHTS[1::2]:
        index = Path(path, name)
        if index.is_file():
            try:
                shards = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ModelError(f"not an index of weights ({error!r}); copy the model again", index) from error
            for shard in shards:
                if os.path.basename(str(shard)) != shard:
                    raise ModelError(f"{name} names {shard!r}, which is not a file of its directory", path)
                if not os.path.isfile(os.path.join(path, str(shard))):
                    raise ModelError(f"{shard} is missing, which {name} names; copy the model again", path)
    return config


def _json(path: str, name: str) -> Any:
    try:
        return json.loads(Path(path, name).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not JSON: {error}", os.path.join(path, name)) from error


def _check_named_files(settings: Any, name: str, path: str) -> None:
    """Reject tokenizer settings that name a file outside the directory itself."""
    stack: list[tuple[str, Any]] = [("", settings)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            stack += [(str(name), inner) for name, inner in value.items()]
        elif isinstance(value, list) and key not in ("vocab", "merges"):  # lists of these are pieces, not files
            stack += [(key, inner) for inner in value]
        elif isinstance(value, str) and _NAMES_FILES.fullmatch(key) and key not in _NOT_OPENED:
            if value != os.pardir and os.path.basename(value) == value:
                continue
            raise ModelError(f"{name}: {key} is {value!r}, which is not a file of its directory; remove it", path)


def _check_kernels(config: dict[str, Any], path: str) -> None:
    """Reject implementations that the library would download and run (``attn_implementation``)."""
    stack: list[tuple[str, Any]] = [("", config)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            inherited = key if "_implementation" in key else ""
            stack += [(inherited or str(name), inner) for name, inner in value.items()]
        elif "_implementation" in key and "/" in str(value):
            raise ModelError(f"{key} is {value!r}, downloaded code, which Ninja does not run; remove it", path)


def _is_masked(config: dict[str, Any], path: str) -> bool:
    """Tell whether a model is masked rather than causal, by the architectures of its configuration."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config["model_type"]
    architectures = [str(name) for name in config.get("architectures") or ()]
    causal, masked = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if config.get("is_encoder_decoder") or not (causal or masked):
        model_type = f"a model of type {kind!r}" + (f" ({', '.join(architectures)})" if architectures else "")
        raise ModelError(
            f"{model_type}; Ninja runs causal and masked language models of the transformers library", path
        )
    if causal and masked:  # such as BERT
        return not any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures)
    return masked


def _first_id(*ids: Any) -> int | None:
    """Return the first valid id; configurations may contain lists of ids."""
    for number in ids:
        if isinstance(number, list) and number:
            return int(number[0])
        if isinstance(number, int):
            return number
    return None


@contextmanager
def _convert_errors(path: str, logging: Any) -> Iterator[None]:
    """Load without a progress bar; convert the library's errors into one-line `ModelError`s."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except ImportError as error:
        raise DependencyError(f"transformers needs another library: {reason(error)}", path) from error
    except Exception as error:  # the library raises many types, with long messages
        raise ModelError(f"transformers cannot load it: {reason(error)}", path) from error
    finally:
        if shown:
            logging.enable_progress_bar()
