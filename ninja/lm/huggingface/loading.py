"""Open Hugging Face models from a directory, without network access or custom code, or from objects in memory."""

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
from ninja.lm.huggingface.piece_network import longest_input, open_pieces
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.protocol import LanguageModel, LoadOptions, TextTransform

CONFIG = "config.json"
ADAPTER = "adapter_config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
# Files of tokenizer settings, and the keys in them whose values transformers may open as files.
TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
_NAMES_FILES = re.compile(r"(?:.*_)?(?:files?|paths?|dir|dic|spm|weights|option)|vocab|merges|init_inputs")
# Keys that record where the tokenizer came from; transformers does not open their values.
_NOT_OPENED = ("name_or_path", "_name_or_path", "special_tokens_map_file")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json")


def open_directory(path: str, options: LoadOptions) -> LanguageModel:
    """Open a directory with a Hugging Face model as a language model.

    A causal model becomes a `CausalLM`. ``</s>`` is the ``eos_token`` of the tokenizer, or else of the configuration;
    ``<s>`` is the ``bos_token`` of the tokenizer, or else of the configuration, or else ``</s>``. A causal model
    without an ``eos_token`` is rejected.

    A masked model becomes a `MaskedLM`, which can score only whole sentences. Its tokenizer must define ``mask_token``,
    ``cls_token`` (or ``bos_token``) and ``sep_token`` (or ``eos_token``).

    Raises:
        ModelError: A file is missing or damaged, or the model type is not supported.
        OptionError: Torch cannot use the device.
        DependencyError: The transformers library, or a library that it needs for this model, is not installed.
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
        raise ModelError(
            f"weights that {type(model).__name__} needs are missing or have wrong shapes: {', '.join(lacking)[:200]}; "
            "save the model again with save_pretrained",
            path,
        )
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
    """Create a language model from a network in memory and its tokenizer, both from the transformers library.

    The network can be any torch module that accepts ``input_ids`` and returns ``logits``, including quantised and
    adapted (PEFT) models. It stays on its device and is set to evaluation mode. A masked model can score only whole
    sentences.

    Args:
        model: The network. If it has an attribute ``config``, this configuration determines the model type, the maximum
            input length and the special pieces.
        tokenizer: The tokenizer of the network.
        normalize: False to use the network's unnormalised scores.  [default: normalise]
        max_batch: Maximum number of histories per network call.  [default: no limit]
        text_transform: ``"lower"`` to lower-case words, for lattices in upper case.  [default: words are unchanged]

    Raises:
        ModelError: The module returns no logits, its scores depend on later pieces, or neither the tokenizer nor the
            configuration defines an end-of-text piece.
    """
    model.eval()
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    architectures = getattr(config, "architectures", None) or [type(model).__name__]
    described = {"model_type": kind, "architectures": architectures, "causal": getattr(config, "causal", False)}
    masked = kind is not None and _is_masked(described, type(model).__name__)
    options = LoadOptions(normalize=normalize, max_batch=max_batch, text_transform=text_transform)
    return (_masked if masked else _causal)(model, tokenizer, options)


def _causal(model: Any, tokenizer: Any, options: LoadOptions, path: str | None = None) -> CausalLM:
    config = getattr(model, "config", None)
    eos = _first_id(tokenizer.eos_token_id, _configured_id(config, "eos_token_id"))
    bos = _first_id(tokenizer.bos_token_id, _configured_id(config, "bos_token_id"), eos)
    if bos is None or eos is None:
        raise ModelError(
            "neither the tokenizer nor the configuration defines an end-of-text piece; set eos_token in the tokenizer",
            path,
        )
    pieces = open_pieces(model, bos, options, path)
    return CausalLM(
        pieces, Spelling(tokenizer, bos, eos, pieces.num_pieces, options.text_transform, options.multi_char, path)
    )


def _masked(model: Any, tokenizer: Any, options: LoadOptions, path: str | None = None) -> MaskedLM:
    before = _first_id(tokenizer.cls_token_id, tokenizer.bos_token_id)
    after = _first_id(tokenizer.sep_token_id, tokenizer.eos_token_id)
    if before is None or after is None or tokenizer.mask_token_id is None:
        raise ModelError(
            "the tokenizer of a masked language model must define mask_token, cls_token and sep_token; add the missing "
            "tokens",
            path,
        )
    num_pieces = model.get_input_embeddings().weight.shape[0]
    spelling = Spelling(tokenizer, before, after, num_pieces, options.text_transform, options.multi_char, path)
    longest = min(longest_input(model), tokenizer.model_max_length)
    return MaskedLM(model, spelling, (before, after, tokenizer.mask_token_id), longest, options.max_batch)


def _check_directory(path: str) -> dict[str, Any]:
    """Return the configuration of a directory after checking that all required files exist."""
    try:
        config = _json(path, CONFIG)
    except FileNotFoundError as error:
        raise ModelError(f"{CONFIG} is missing; specify a directory written by `save_pretrained`", path) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError(
            "model_type is missing; save the model with the transformers library", os.path.join(path, CONFIG)
        )
    if os.path.exists(os.path.join(path, ADAPTER)):
        raise ModelError(
            f"this is an adapter ({ADAPTER}) for another model; merge it into its base model with merge_and_unload",
            path,
        )
    _check_kernels(config, path)
    if config.get("configuration_files") or config.get("transformers_weights", WEIGHTS[0]) not in (None, *WEIGHTS):
        key = "configuration_files" if config.get("configuration_files") else "transformers_weights"
        raise ModelError(f"{CONFIG}: {key} refers to other files, which is not supported; remove it", path)
    for name in TOKENIZER_SETTINGS:
        if os.path.exists(os.path.join(path, name)):
            _check_named_files(_json(path, name), name, path)
    for purpose, names in (("weights", WEIGHTS), ("tokenizer", TOKENIZERS)):
        if not any(os.path.isfile(os.path.join(path, name)) for name in names):
            raise ModelError(f"this directory has no {purpose} file; it needs one of {', '.join(names)}", path)
    for name in WEIGHTS[1::2]:
        index = Path(path, name)
        if index.is_file():
            try:
                shards = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ModelError(f"not a weight index ({error!r}); copy the model again", index) from error
            for shard in shards:
                if os.path.basename(str(shard)) != shard:
                    message = f"{name} refers to {shard!r}, which is not in this directory"
                    raise ModelError(f"{message}; save the model again", path)
                if not os.path.isfile(os.path.join(path, str(shard))):
                    raise ModelError(f"{shard}, to which {name} refers, is missing; copy the model again", path)
    return config


def _json(path: str, name: str) -> Any:
    try:
        return json.loads(Path(path, name).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not valid JSON: {error}", os.path.join(path, name)) from error


def _check_named_files(settings: Any, name: str, path: str) -> None:
    """Reject tokenizer settings that refer to a file that is not directly in the directory of the model."""
    stack: list[tuple[str, Any]] = [("", settings)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            stack += [(str(name), inner) for name, inner in value.items()]
        elif isinstance(value, list) and key not in ("vocab", "merges"):  # these lists contain pieces, not files
            stack += [(key, inner) for inner in value]
        elif isinstance(value, str) and _NAMES_FILES.fullmatch(key) and key not in _NOT_OPENED:
            if value != os.pardir and os.path.basename(value) == value:
                continue
            raise ModelError(f"{name}: {key} is {value!r}, which is not in this directory; remove {key}", path)


def _check_kernels(config: dict[str, Any], path: str) -> None:
    """Reject implementations (such as ``attn_implementation``) that transformers would download and run."""
    stack: list[tuple[str, Any]] = [("", config)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            inherited = key if "_implementation" in key else ""
            stack += [(inherited or str(name), inner) for name, inner in value.items()]
        elif "_implementation" in key and "/" in str(value):
            raise ModelError(f"{key} is {value!r}, but Ninja does not run downloaded code; remove {key}", path)


def _is_masked(config: dict[str, Any], path: str) -> bool:
    """Return whether a model is masked rather than causal, according to the architectures in its configuration.

    Raises:
        ModelError: The model is neither masked nor causal.
    """
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config["model_type"]
    architectures = [str(name) for name in config.get("architectures") or ()]
    causal, masked = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if config.get("is_encoder_decoder") or not (causal or masked):
        model_type = f"{kind!r}" + (f" ({', '.join(architectures)})" if architectures else "")
        raise ModelError(
            f"unsupported model type {model_type}; Ninja runs causal and masked language models of the transformers "
            "library",
            path,
        )
    if kind == "xlm":  # has one class for both
        return not config.get("causal", False)
    if causal and masked:  # such as BERT
        return not any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures)
    return masked


def _configured_id(config: Any, name: str) -> int | None:
    """Return the id of a special piece in a configuration; None if the id is outside the vocabulary."""
    number = _first_id(getattr(config, name, None))
    size = getattr(config, "vocab_size", None)
    return None if number is None or (size is not None and number >= size) else number


def _first_id(*ids: Any) -> int | None:
    """Return the first id in the arguments, which can be ids, lists of ids or None; None if they contain no id."""
    for number in ids:
        if isinstance(number, list) and number:
            return int(number[0])
        if isinstance(number, int):
            return number
    return None


@contextmanager
def _convert_errors(path: str, logging: Any) -> Iterator[None]:
    """Suppress the progress bar of transformers, and convert its errors into one-line Ninja errors.

    Raises:
        DependencyError: A library that transformers imports is not installed.
        ModelError: Any other error occurred.
    """
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except ImportError as error:
        raise DependencyError(f"transformers needs another library for this model: {reason(error)}", path) from error
    except Exception as error:  # the library raises many types, with long messages
        raise ModelError(f"transformers cannot load this model: {reason(error)}", path) from error
    finally:
        if shown:
            logging.enable_progress_bar()
