"""Train a language model on a text: the work behind ``ninja train``."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ninja.errors import ModelError, OptionError, OutputError
from ninja.lm import checkpoint, text
from ninja.lm.checkpoint import Checkpoint
from ninja.lm.text import Sentences, batches, pad
from ninja.lm.train.normaliser import normaliser_error, with_normaliser
from ninja.lm.train.objective import Sampler, backward, perplexity
from ninja.lm.train.recipe import CHANGEABLE, Progress, Trained, TrainOptions
from ninja.lm.word_map import SPECIAL
from ninja.models import lstm, transformer

REPORT_STEPS = 50  # steps between two calls of `progress`


@dataclass(slots=True)
class _Run:
    """The part of a training that changes and that a continuation restores."""

    module: checkpoint.Module
    optimizer: torch.optim.Optimizer
    step: int = 0
    minutes: float = 0.0
    best_step: int = 0
    best_perplexity: float = float("inf")
    worse_checks: int = 0

    def save(self, path: str, signature: dict[str, Any]) -> None:
        """Write everything a continuation needs; `signature` tells whether it may."""
        counters = {name: getattr(self, name) for name in self.__slots__ if name not in ("module", "optimizer")}
        content = {
            "signature": signature,
            "counters": counters,
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
        checkpoint.write_atomically(content, path)

    def restore(self, path: str, signature: dict[str, Any]) -> None:
        """Take up a saved training, if it was made with the same texts and options."""
        if not os.path.exists(path):
            raise OptionError("no training state to resume; leave out --resume to start anew", path)
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
            changed = [name for name, value in signature.items() if content["signature"][name] != value]
            if changed:
                was, now = content["signature"][changed[0]], signature[changed[0]]
                message = f"{changed[0]} was {was} and is now {now}; resume with the same texts and options"
                raise OptionError(message, path)
            self.module.load_state_dict(content["module"])
            self.optimizer.load_state_dict(content["optimizer"])
            torch.set_rng_state(content["random"])
            for name, value in content["counters"].items():
                setattr(self, name, value)
        except OptionError:
            raise
        except Exception as error:  # torch raises a dozen types for damaged files
            raise ModelError(f"not a training state ({error}); start anew without --resume", path) from error


@torch.random.fork_rng(devices=[])  # the caller's random numbers stay as they are
def train(
    train_text: str | os.PathLike[str],
    dev_text: str | os.PathLike[str] | None,
    output: str | os.PathLike[str],
    options: TrainOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Trained:
    """Train a language model and write its best checkpoint.

    The checkpoint is written whenever the held-out perplexity falls; beside it stands ``<output>.state``, from
    which an interrupted training goes on (on a CPU as if nothing had happened). It goes when the training ends.

    Args:
        train_text: One sentence a line, words between white space; ``.gz`` is unpacked.
        dev_text: The same, held out: it decides which weights are kept and when to stop early. None: every 20th
            sentence of the training text, or fewer of a large one, is left out of the training for that.
        options: How to train; None = the defaults.
        progress: Called every 50 steps and after each measurement.

    Raises:
        OptionError: An option is out of range, or a resumed training does not fit its state.
        FormatError: A text is empty, not UTF-8, or not one sentence a line.
        ModelError: The state to resume is damaged, or the training diverged.
        OutputError: The output's folder does not exist.
    """
    options = options or TrainOptions()
    output = os.fspath(output)
    folder = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(folder):  # or hours later the first checkpoint would fail
        raise OutputError("its folder does not exist; make it first", output)
    if options.threads:
        torch.set_num_threads(options.threads)
    held_out = text.held_out_part(train_text) if dev_text is None else None
    rest = None if held_out is None else dataclasses.replace(held_out, held_out=False)
    words = text.make_vocabulary(train_text, options.vocabulary, options.min_count, rest)
    sentences = text.encode(train_text, words, rest)
    dev = text.encode(train_text if dev_text is None else dev_text, words, held_out)
    signature = {name: value for name, value in dataclasses.asdict(options).items() if name not in CHANGEABLE}
    signature["train_sha256"] = text.digest(train_text)
    if dev_text is not None:
        signature["dev_sha256"] = text.digest(dev_text)
    if held_out is not None:
        signature["held_out_every"] = held_out.every

    torch.manual_seed(options.seed)
    module = _make(options, len(words))
    module.initialise()
    module.to(options.device)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.0, betas=(0.9, 0.99), fused=True)
    run = _Run(module, optimizer)
    state_path = f"{output}.state"
    if options.resume:
        run.restore(state_path, signature)

    card: dict[str, checkpoint.CardEntry] = {
        **signature,
        "train_words": len(sentences.word),
        "train_sentences": len(sentences),
        "train_unknown": sentences.num_unknown / len(sentences.word),
        "unk_words": sentences.unk_words,
        "dev_words": len(dev.word),
        "dev_unknown": dev.num_unknown / len(dev.word),
        "torch": str(torch.__version__),
    }
    for report in _steps(run, sentences, dev, options):
        if report.best:
            card |= {"step": run.step, "epochs_done": report.epoch, "minutes": run.minutes}
            card["perplexity"] = run.best_perplexity
            checkpoint.save(Checkpoint(module, words, card), output)
        if report.perplexity is not None:
            run.save(state_path, signature)
        if progress is not None:
            progress(report)
    if options.normaliser:
        add_normaliser(output, sentences, dev, options)
    if os.path.exists(state_path):
        os.unlink(state_path)
    num_held_out = 0 if held_out is None else len(dev)
    unknown = dev.num_unknown / len(dev.word)
    return Trained(run.best_perplexity, unknown, run.best_step, run.minutes, output, num_held_out)


def add_normaliser(path: str | os.PathLike[str], sentences: Sentences, dev: Sentences, options: TrainOptions) -> None:
    """Write a checkpoint again, with layers that estimate its log-normaliser.

    Args:
        sentences: Training text, in the network's words.
        dev: Held-out text, for the card's figures.
        options: Width of the layers, seed and device.
    """
    stored = checkpoint.read(path)
    assert isinstance(stored.module, lstm.LSTMLanguageModel)
    module = checkpoint.as_stored(
        with_normaliser(stored.module, sentences, options.normaliser, seed=options.seed, device=options.device)
    )
    bias, error = normaliser_error(module, dev, options.device)
    card = {**stored.card, "normaliser": options.normaliser, "normaliser_bias": bias, "normaliser_error": error}
    checkpoint.save(Checkpoint(module, stored.words, card), path)


def _make(options: TrainOptions, vocabulary: int) -> checkpoint.Module:
    """Make the network, its weights not drawn yet."""
    sizes = (vocabulary, options.embedding, options.hidden, options.layers)
    if options.architecture == "lstm":
        return lstm.LSTMLanguageModel(lstm.Config(*sizes, options.dropout))
    return transformer.TransformerLanguageModel(transformer.Config(*sizes, options.heads, options.dropout))


def _steps(run: _Run, sentences: Sentences, dev: Sentences, options: TrainOptions) -> Iterator[Progress]:
    """Make the steps of a training, reporting now and then; the last report is a measurement."""
    parameters = list(run.module.parameters())
    count = np.bincount(sentences.word, minlength=run.module.config.vocabulary)
    count[: len(SPECIAL)] = len(sentences)  # <s> is never a target, so as a sure sample its probability falls to 0
    sampler = Sampler.of_counts(count, options.samples)
    epoch_steps = len(batches(sentences, options.batch_tokens))
    num_steps = max(1, round(options.epochs * epoch_steps))
    groups: list[np.ndarray] = []
    groups_epoch = -1
    losses: list[float] = []
    num_words = 0
    minutes_before = run.minutes
    started = reported = time.monotonic()
    done = run.step >= num_steps
    while not done:
        epoch, batch = divmod(run.step, epoch_steps)
        if epoch != groups_epoch:
            # From the seed and the epoch alone, so that a continuation finds the same order.
            groups, groups_epoch = batches(sentences, options.batch_tokens, (options.seed, epoch)), epoch
        spent = 0.0 if options.max_minutes is None else run.minutes / options.max_minutes
        rate = _learning_rate(options, run.step, max(run.step / num_steps, spent))
        for group in run.optimizer.param_groups:
            group["lr"] = rate
        losses.append(_step(run, sentences, groups[batch], sampler, parameters, options))
        num_words += int((sentences.begin[groups[batch] + 1] - sentences.begin[groups[batch]]).sum())
        run.step += 1

        now = time.monotonic()
        run.minutes = minutes_before + (now - started) / 60
        out_of_time = options.max_minutes is not None and run.minutes >= options.max_minutes
        done = run.step >= num_steps or out_of_time
        measured: float | None = None
        best = False
        if done or run.step % options.check_steps == 0:
            measured = perplexity(checkpoint.as_stored(run.module), dev, options.device)
            best = measured < run.best_perplexity
            run.worse_checks = 0 if best else run.worse_checks + 1
            if best:
                run.best_perplexity, run.best_step = measured, run.step
            done = done or run.worse_checks >= options.patience
        if measured is not None or run.step % REPORT_STEPS == 0:
            yield Progress(
                step=run.step,
                num_steps=num_steps,
                epoch=run.step / epoch_steps,
                minutes=run.minutes,
                words_per_second=num_words / max(now - reported, 1e-9),
                loss=sum(losses) / len(losses),
                learning_rate=rate,
                perplexity=measured,
                best=best,
            )
            losses, num_words, reported = [], 0, time.monotonic()


def _learning_rate(options: TrainOptions, step: int, progress: float) -> float:
    """Rise linearly in the warm-up, and fall linearly to 0 at the end of the training."""
    return options.learning_rate * min(1.0, (step + 1) / (options.warmup + 1)) * max(0.0, 1.0 - progress)


def _step(
    run: _Run,
    sentences: Sentences,
    members: np.ndarray,
    sampler: Sampler,
    parameters: list[torch.nn.Parameter],
    options: TrainOptions,
) -> float:
    """Update the weights by one batch and return its loss in nats per token."""
    run.module.train()
    run.optimizer.zero_grad(set_to_none=True)
    source, target = (torch.from_numpy(array).to(options.device) for array in pad(sentences, members))
    # Products in bfloat16 with float32 weights are several times faster on recent CPUs and GPUs.
    with torch.autocast(torch.device(options.device).type, torch.bfloat16):
        real = target >= 0  # [time, batch]
        output = run.module(source)[real]  # [tokens, embedding]
        loss = backward(run.module, output, target[real], sampler, options.self_normalize)
    norm = torch.nn.utils.clip_grad_norm_(parameters, options.clip)
    if not torch.isfinite(norm):
        raise ModelError(f"the training diverged at step {run.step}; lower the learning rate, {options.learning_rate}")
    run.optimizer.step()
    return loss
