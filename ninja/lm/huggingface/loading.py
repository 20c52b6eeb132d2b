"""Models of Hugging Face's libraries: a directory, opened without network and without code from it, or an object."""

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
# Settings of tokenizers, and the keys whose values the library, by its version and the tokenizer's class, opens.
TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
_NAMES_FILES = re.compile(r"(?:.*_)?(?:files?|paths?|dir|dic|spm|weights|option)|vocab|merges|init_inputs")
_NOT_OPENED = ("name_or_path", "_name_or_path", "special_tokens_map_file")  # where the model was when it was saved
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json")


def open_directory(path: str, options: LoadOptions) -> LanguageModel:
    """Open a language model.

    A causal one becomes a `CausalLM`; a masked one a `MaskedLM`, which only scores the sentences of n-best lists.
    ``<s>`` is the tokenizer's ``bos_token``, and if it has none its ``eos_token``; ``</s>`` is its ``eos_token``.
    Where the tokenizer names neither, the configuration's ids are taken; a causal model without both is refused.

    Raises:
        ModelError: A file is missing or damaged, or the model is of a kind that Ninja does not run.
        OptionError: Torch cannot use the device.
        DependencyError: The transformers library, or a library that it needs for this directory, is not installed.
    """
    config = _checked(path)
    with needed_for("a Hugging Face model", path):
        import transformers
    masked = _is_masked(config, path)
    device = device_of(options.device)
    with _explained(path, transformers.utils.logging):
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
    if lacking:  # the library would draw them at random
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
    """Make a language model of a network in memory and its tokenizer, as the transformers library has them.

    Any torch module will do that takes ``input_ids`` and answers with ``logits``, quantised or adapted (PEFT) ones too;
    it stays where it is, and is put into evaluation mode. A masked one only scores the sentences of n-best lists.

    Args:
        model: The network. What its ``config`` says is used: the kind of model, the longest input, the marks of a text.
        tokenizer: Its tokenizer, of the same library.
        normalize: False leaves scores as the network gives them; None = normalised.
        max_batch: Most histories the network sees at once; None = as many as a call brings.
        text_transform: ``"lower"`` for lattices in upper case; None = words as they are.

    Raises:
        ModelError: The module gives no logits, or no piece ends a text.
    """
    model.eval()
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    named = getattr(config, "architectures", None) or [type(model).__name__]
    masked = kind is not None and _is_masked({"model_type": kind, "architectures": named}, type(model).__name__)
    options = LoadOptions(normalize=normalize, max_batch=max_batch, text_transform=text_transform)
    return (_masked if masked else _causal)(model, tokenizer, options)


def _causal(model: Any, tokenizer: Any, options: LoadOptions, path: str | None = None) -> CausalLM:
    config = getattr(model, "config", None)
    eos = _first(tokenizer.eos_token_id, getattr(config, "eos_token_id", None))
    bos = _first(tokenizer.bos_token_id, getattr(config, "bos_token_id", None), eos)
    if bos is None or eos is None:
        raise ModelError("neither its tokenizer nor its configuration names a piece that ends a text (eos_token)", path)
    pieces = open_pieces(model, bos, options, path)
    return CausalLM(
        pieces, Spelling(tokenizer, bos, eos, pieces.num_pieces, options.text_transform, options.multi_char, path)
    )


def _masked(model: Any, tokenizer: Any, options: LoadOptions, path: str | None = None) -> MaskedLM:
    before, behind = _first(tokenizer.cls_token_id, tokenizer.bos_token_id), tokenizer.sep_token_id
    behind = _first(behind, tokenizer.eos_token_id)
    if before is None or behind is None or tokenizer.mask_token_id is None:
        raise ModelError("its tokenizer lacks a piece for hidden ones or for a sentence's ends (mask, cls, sep)", path)
    num_pieces = model.get_input_embeddings().weight.shape[0]
    spelling = Spelling(tokenizer, before, behind, num_pieces, options.text_transform, options.multi_char, path)
    longest = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
    longest = min(longest, tokenizer.model_max_length)  # of some, the first positions are not for words
    return MaskedLM(model, spelling, (before, behind, tokenizer.mask_token_id), longest, options.max_batch)


def _checked(path: str) -> dict[str, Any]:
    """Return the configuration, once every file that it needs is there."""
    try:
        config = _json(path, CONFIG)
    except FileNotFoundError as error:
        raise ModelError(f"{CONFIG} is missing; give a directory as `save_pretrained` writes it", path) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError("names no model_type; is it of the transformers library?", os.path.join(path, CONFIG))
    if os.path.exists(os.path.join(path, ADAPTER)):
        raise ModelError(f"{ADAPTER} names another model, to be changed; merge the two (merge_and_unload) first", path)
    _check_kernels(config, path)
    if config.get("configuration_files") or config.get("transformers_weights", WEIGHTS[0]) not in (None, *WEIGHTS):
        named = "configuration_files" if config.get("configuration_files") else "transformers_weights"
        raise ModelError(f"{CONFIG} names other files in {named}; take it out", path)
    for name in TOKENIZER_SETTINGS:
        if os.path.exists(os.path.join(path, name)):
            _check_named_files(_json(path, name), name, path)
    for what, names in (("weights", WEIGHTS), ("tokenizer", TOKENIZERS)):
        if not any(os.path.isfile(os.path.join(path, name)) for name in names):
            raise ModelError(f"the {what} are missing; one of {', '.join(names)} must lie there", path)
    for name in WEIGHTS[1::2]:
        index = Path(path, name)
        if index.is_file():
            try:
                shards = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ModelError(f"not an index of weights ({error!r}); copy the model again", index) from error
            for shard in shards:
                if os.path.basename(str(shard)) != shard:
                    raise ModelError(f"{name} names {shard!r}, which is no file of its directory", path)
                if not os.path.isfile(os.path.join(path, str(shard))):
                    raise ModelError(f"{shard} is missing, which {name} names; copy the model again", path)
    return config


def _json(path: str, name: str) -> Any:
    """Return the content of a JSON file of the directory."""
    try:
        return json.loads(Path(path, name).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not JSON: {error}", os.path.join(path, name)) from error


def _check_named_files(settings: Any, name: str, path: str) -> None:
    """Refuse settings of a tokenizer that name a file anywhere but in the directory itself."""
    waiting: list[tuple[str, Any]] = [("", settings)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(each), inner) for each, inner in value.items()]
        elif isinstance(value, list) and key not in ("vocab", "merges"):  # lists of these are pieces, not files
            waiting += [(key, inner) for inner in value]
        elif isinstance(value, str) and _NAMES_FILES.fullmatch(key) and key not in _NOT_OPENED:
            if value != os.pardir and os.path.basename(value) == value:
                continue
            raise ModelError(f"{name}: {key} is {value!r}, which is no file of its directory; take it out", path)


def _check_kernels(config: dict[str, Any], path: str) -> None:
    """Refuse implementations that the library would fetch from its hub and run (``attn_implementation``)."""
    waiting: list[tuple[str, Any]] = [("", config)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            inherited = key if "_implementation" in key else ""
            waiting += [(inherited or str(name), each) for name, each in value.items()]
        elif "_implementation" in key and "/" in str(value):
            raise ModelError(f"{key} is {value!r}, code to be fetched; Ninja runs none: take it out", path)


def _is_masked(config: dict[str, Any], path: str) -> bool:
    """Tell masked from causal language models, by the architectures that the configuration names."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config["model_type"]
    named = [str(name) for name in config.get("architectures") or ()]
    causal, masked = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if config.get("is_encoder_decoder") or not (causal or masked):
        what = f"a model of type {kind!r}" + (f" ({', '.join(named)})" if named else "")
        raise ModelError(f"{what}; Ninja runs causal and masked language models of the transformers library", path)
    if causal and masked:  # BERT and its kin can be both
        return not any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in named)
    return masked


def _first(*ids: Any) -> int | None:
    """Return the first id that is one; configurations may hold lists of them."""
    for each in ids:
        if isinstance(each, list) and each:
            return int(each[0])
        if isinstance(each, int):
            return each
    return None


@contextmanager
def _explained(path: str, logging: Any) -> Iterator[None]:
    """Load without a progress bar, and turn errors about a damaged or unusual directory into one line."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except ImportError as error:
        raise DependencyError(f"transformers needs another library: {reason(error)}", path) from error
    except Exception as error:  # a dozen types, some with a page of advice
        raise ModelError(f"transformers cannot load it: {reason(error)}", path) from error
    finally:
        if shown:
            logging.enable_progress_bar()
