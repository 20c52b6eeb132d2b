"""Train the small Hugging Face model of docs/results.md: a byte-level BPE tokenizer and a GPT-2 of 4 layers.

    python -m benchmarks.training huggingface train.txt.gz dev.txt.gz FOLDER [--minutes 15]

Every sentence is a sequence of its own between two ``<|endoftext|>``; a word's token includes the space before it, also
that of the first word. The learning rate falls to 0 at the end of the time, which is CPU time of one thread; a slower
machine sees less of the text. FOLDER receives the files of ``save_pretrained``. Needs the extra ``ninja-asr[hf]``.
"""

import math
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from benchmarks.command import argument, command, option
from ninja.lm.compute import computes_in_half
from ninja.lm.text import Sentences, batches, pad, read_sentences

SENTENCES = 300_000  # of the text, evenly spread: more than are seen in the time
PIECES = 8192
BATCH_TOKENS = 2048
LEARNING_RATE = 2e-3
WARMUP = 300  # steps
END = "<|endoftext|>"  # has id 0; id 1 is reserved for </s> of `pad`, which is the same piece here


def read(path: str) -> list[str]:
    lines = [" ".join(words) for words in read_sentences(path)]
    return lines[:: max(1, len(lines) // SENTENCES)]


def train_tokenizer(lines: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, unk_token=END)


def encode(lines: list[str], tokenizer: PreTrainedTokenizerFast) -> tuple[Sentences, int]:
    flat, length = [], []
    for first in range(0, len(lines), 10_000):
        for pieces in tokenizer(lines[first : first + 10_000])["input_ids"]:
            flat.append(np.array(pieces, np.int32))
            length.append(len(pieces))
    begin = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    return Sentences(np.concatenate(flat), begin, 0), sum(line.count(" ") + 1 for line in lines)


def loss_of(model: GPT2LMHeadModel, sentences: Sentences, members: np.ndarray) -> tuple[torch.Tensor, int]:
    """Return the summed cross-entropy of some sentences, and their number of tokens."""
    source, target = (torch.from_numpy(np.ascontiguousarray(array.T)) for array in pad(sentences, members))
    real = target >= 0
    target[torch.arange(len(members)), real.sum(1) - 1] = 0  # the end of a sentence is the piece that begins one
    output = model.transformer(source, use_cache=False).last_hidden_state[real]
    loss = torch.nn.functional.cross_entropy(model.lm_head(output).float(), target[real], reduction="sum")
    return loss, int(real.sum())


@torch.inference_mode()
def perplexity_per_word(model: GPT2LMHeadModel, sentences: Sentences, num_words: int) -> float:
    model.eval()
    total = sum(float(loss_of(model, sentences, members)[0]) for members in batches(sentences, BATCH_TOKENS))
    return math.exp(total / (num_words + len(sentences)))  # a sentence's end counts, as it does for `ninja train`


@command
@argument("train", type=str)
@argument("dev", type=str)
@argument("folder")
@option("--minutes", default=15.0, help="CPU time of the training.")
def main(train: str, dev: str, folder: Path, minutes: float) -> None:
    seconds = 60 * minutes
    torch.set_num_threads(1)
    torch.manual_seed(1)
    lines = read(train)
    tokenizer = train_tokenizer(lines)
    (sentences, _), (held_out, num_words) = encode(lines, tokenizer), encode(read(dev), tokenizer)
    print(f"{len(sentences.word)} pieces", flush=True)
    config = GPT2Config(
        vocab_size=PIECES, n_positions=1024, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.99), weight_decay=0.01, fused=True)
    started = time.process_time()
    step = epoch = 0
    remaining: list[np.ndarray] = []
    while (progress := (time.process_time() - started) / seconds) < 1:
        if not remaining:
            remaining, epoch = batches(sentences, BATCH_TOKENS, (1, epoch)), epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARMUP) * (1 - progress)
        model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=computes_in_half()):
            loss, num_tokens = loss_of(model, sentences, remaining.pop())
        optimizer.zero_grad(set_to_none=True)
        (loss / num_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0:
            spent_minutes = (time.process_time() - started) / 60
            print(
                f"step {step}, {spent_minutes:.1f} min, loss {float(loss.detach()) / num_tokens:.3f} a piece",
                flush=True,
            )
    print(f"step {step}: perplexity {perplexity_per_word(model, held_out, num_words):.2f} a word", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
