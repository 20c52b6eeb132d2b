"""Training of a language model on a text."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ninja.errors import ModelError, OptionError, OutputError
from ninja.lm import checkpoint, text
from ninja.lm.checkpoint import Checkpoint
from ninja.lm.devices import chosen_device
from ninja.lm.perplexity import LARGEST
from ninja.lm.stored_network import CardEntry
from ninja.lm.text import Sentences
from ninja.models import lstm, transformer
from ninja.train import state
from ninja.train.corpus import Choice, open_corpus
from ninja.train.initial import read_initial
from ninja.train.normaliser import normaliser_error, with_normaliser
from ninja.train.objective import negative_logprob
from ninja.train.order import Order
from ninja.train.parallel import launch, methods
from ninja.train.parallel.sharing import Learner, SingleWorker
from ninja.train.parallel.workers import Workers
from ninja.train.recipe import CHANGEABLE, Progress, Trained, TrainOptions
from ninja.train.step import check_memory, gradient, learning_rate, make_sampler, update, uses_bfloat16

REPORT_STEPS = 50  # number of steps between progress reports
# Number of batch shapes for which oneDNN caches code of half a megabyte each. Batches of sentences have many shapes:
# with oneDNN's default of 1024, the memory use of workers grew by gigabytes.
ONEDNN_SHAPES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


def train(
    train_text: str | os.PathLike[str],
    dev_text: str | os.PathLike[str] | None,
    output: str | os.PathLike[str],
    options: TrainOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Trained:
    """Train a language model and write its best checkpoint.

    The checkpoint is written whenever the held-out perplexity falls, and at the start if training starts with another
    checkpoint. An interrupted training run is resumed from ``<output>.state``, which is removed at the end. On a CPU,
    with a synchronous method, the result is bit-identical to the result of an uninterrupted run. To use several
    workers, this function starts processes on this machine, so a script must call it under
    ``if __name__ == "__main__"``; under torchrun, all processes that torchrun has started call this function.

    Args:
        train_text: Training text with one sentence per line and words separated by whitespace; ``.gz`` files are
            decompressed.
        dev_text: Held-out text in the same format, used to select the best weights and to stop training early.
            [default: every 20th sentence of the training text, up to 5,000 sentences; these are excluded from training]
        options: Training options.
        progress: Called every 50 steps and after each measurement; under torchrun, only in the first worker.

    Raises:
        OptionError: An option is out of range, the device has too little memory for the network, a size differs from
            the checkpoint `TrainOptions.init`, or the state to resume belongs to another training run.
        FormatError: A text is empty or not UTF-8, or a line is too long or contains ``<s>`` or ``</s>``.
        ModelError: The state to resume or the initial checkpoint is damaged, or training diverged.
        OutputError: The output's folder does not exist.
        WorkerError: A worker was killed.
    """
    os.environ.setdefault(*ONEDNN_SHAPES)  # worker processes inherit the environment
    options = options or TrainOptions()
    options = dataclasses.replace(options, device=chosen_device(options.device))
    output = os.fspath(output)
    folder = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(folder):  # checked before training, which can take hours
        raise OutputError("the folder of this file does not exist; create it first", output)
    texts = os.fspath(train_text), None if dev_text is None else os.fspath(dev_text)
    if launch.started_by_torchrun():
        size = launch.torchrun_size()
        if options.workers not in (1, size):
            raise OptionError(f"workers is {options.workers}, but torchrun has started {size}; omit workers")
        options = dataclasses.replace(options, workers=size)
        with launch.torchrun_group(options.device) as workers:
            return _train(*texts, output, options, progress, workers)
    if options.workers > 1:
        trained: Trained = launch.run(_train, (*texts, output, options), options.workers, options.device, progress)
        return trained
    if options.parallel == "none":
        return _train(*texts, output, options, progress, Workers())
    with launch.single_group(options.device) as workers:
        return _train(*texts, output, options, progress, workers)


@torch.random.fork_rng(devices=[])  # preserves the random state of the caller
def _train(
    train_text: str,
    dev_text: str | None,
    output: str,
    options: TrainOptions,
    progress: Callable[[Progress], None] | None,
    workers: Workers,
) -> Trained:
    """Train as one of several workers; the first worker writes the files and reports progress."""
    if options.threads:
        torch.set_num_threads(options.threads)
    options = dataclasses.replace(options, device=launch.worker_device(options.device, workers))
    [in_float] = workers.total(float(not uses_bfloat16(options)))  # all machines must use the same precision
    options = dataclasses.replace(options, precision="float32" if in_float else "bfloat16")
    initial = None
    if options.init is not None:
        options, initial = read_initial(options)
    vocabulary = None if initial is None else tuple(initial.words)
    choice = Choice(options.vocabulary, options.min_count, dev_text is None, vocabulary)
    corpus = workers.first_of_machine(lambda first: open_corpus(train_text, choice, first=first))
    words, sentences, held_out = corpus.words, corpus.sentences, corpus.held_out
    dev = text.encode(train_text if dev_text is None else dev_text, words, held_out)
    signature: dict[str, Any] = {"init_sha256": None if initial is None else initial.sha256}
    signature |= {name: value for name, value in dataclasses.asdict(options).items() if name not in CHANGEABLE}
    signature["train_sha256"] = corpus.sha256
    if dev_text is not None:
        signature["dev_sha256"] = text.digest(dev_text)
    if held_out is not None:
        signature["held_out_every"] = held_out.every
    state.check_alike(signature, workers)

    check_memory(options.num_weights(len(words)), options.device)
    torch.manual_seed(options.seed)
    module = _make(options, len(words))
    if initial is None:
        module.initialise()
    else:
        module.load_state_dict(initial.state)
    module.to(options.device)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.0, betas=(0.9, 0.99), fused=True)
    sharing = methods.make(Learner(module, optimizer), workers, options)
    counters = state.Counters()
    state_path = f"{output}.state"
    if options.resume or (launch.restarted() and state.exists(state_path, workers)):
        state.restore(state_path, counters, sharing, signature)

    card: dict[str, CardEntry] = {
        **signature,
        "train_words": len(sentences.word),
        "train_sentences": len(sentences),
        "train_unknown": sentences.num_unknown / len(sentences.word),
        "unk_words": max(sentences.unk_words, 0 if initial is None else initial.unk_words),
        "dev_words": len(dev.word),
        "dev_unknown": dev.num_unknown / len(dev.word),
        "torch": str(torch.__version__),
    }
    is_first = workers.rank == 0
    order = Order(sentences, options.batch_tokens, options.seed)
    for report in _steps(counters, sharing, order, dev, options):
        if report.best:
            card |= {"step": counters.step, "epochs_done": report.epoch, "minutes": counters.minutes}
            card["perplexity"] = counters.best_perplexity
            if is_first:
                with sharing.result():
                    checkpoint.save(Checkpoint(module, words, card), output)
        if report.perplexity is not None:
            state.save(state_path, counters, sharing, signature)
        if progress is not None and is_first:
            progress(report)
    sharing.close()
    if math.isinf(counters.best_perplexity):
        message = "training diverged: the held-out perplexity was infinite in all measurements"
        raise ModelError(f"{message}; use a learning rate below {options.learning_rate}")
    if is_first:
        if options.normaliser:
            add_normaliser(output, sentences, dev, options, None if initial is None else initial.normaliser)
        if os.path.exists(state_path):
            os.unlink(state_path)
    num_held_out = 0 if held_out is None else len(dev)
    unknown = dev.num_unknown / len(dev.word)
    return Trained(counters.best_perplexity, unknown, counters.best_step, counters.minutes, output, num_held_out)


def add_normaliser(
    path: str | os.PathLike[str],
    sentences: Sentences,
    dev: Sentences,
    options: TrainOptions,
    start: dict[str, torch.Tensor] | None = None,
) -> None:
    """Extend a checkpoint with layers that estimate the log-normaliser.

    Args:
        path: The checkpoint, which is overwritten.
        sentences: Training text, as word ids of the network.
        dev: Held-out text, on which the errors stated in the model card are measured.
        options: Width of the layers, seed and device.
        start: Initial weights of the layers; see `with_normaliser`.
    """
    stored = checkpoint.read(path)
    assert isinstance(stored.module, lstm.LSTMLanguageModel)
    width, seed, device = options.normaliser, options.seed, chosen_device(options.device)
    estimating = with_normaliser(stored.module, sentences, width, start=start, seed=seed, device=device)
    module = checkpoint.as_stored(estimating, stored.storage)
    bias, error = normaliser_error(module, dev, device)
    card = {**stored.card, "normaliser": options.normaliser, "normaliser_bias": bias, "normaliser_error": error}
    checkpoint.save(dataclasses.replace(stored, module=module, card=card), path)


def _make(options: TrainOptions, vocabulary: int) -> checkpoint.Module:
    """Create the network; its weights are not initialised."""
    sizes = (vocabulary, options.embedding, options.hidden, options.layers)
    if options.architecture == "lstm":
        return lstm.LSTMLanguageModel(lstm.Config(*sizes, options.dropout, projection=options.projection))
    return transformer.TransformerLanguageModel(transformer.Config(*sizes, options.heads, options.dropout))


def _steps(
    counters: state.Counters, sharing: SingleWorker, order: Order, dev: Sentences, options: TrainOptions
) -> Iterator[Progress]:
    """Run the training steps of a worker, and yield progress reports; the last report contains a perplexity."""
    workers = sharing.workers
    module, optimizer = sharing.learner.module, sharing.learner.optimizer
    sampler = make_sampler(order, module.config.vocabulary, options.samples)
    planned = max(1, round(options.epochs * order.epoch_batches))
    total = sharing.full_steps(planned)
    if total == 0:
        raise OptionError(
            f"the training run has {planned} batches, fewer than its {workers.size} workers; use a smaller batch_tokens"
        )
    num_steps = sharing.steps(total)
    losses: list[float] = []
    minutes_before = counters.minutes
    started = reported = time.monotonic()
    reported_taken, rate = counters.taken, 0.0
    local_steps, communicated = 0, workers.seconds

    def elapsed() -> float:
        return minutes_before + (time.monotonic() - started) / 60

    def report(num_batches: int, measured: float | None = None, *, best: bool = False) -> Progress:
        nonlocal losses, reported, reported_taken, communicated
        seconds = max(time.monotonic() - reported, 1e-9)
        progress = Progress(
            step=sharing.steps(num_batches),
            num_steps=num_steps,
            epoch=num_batches / order.epoch_batches,
            minutes=elapsed(),
            words_per_second=order.num_words(range(reported_taken, num_batches)) / seconds,
            loss=sum(losses) / len(losses) if losses else math.nan,
            learning_rate=rate,
            perplexity=measured,
            best=best,
            communication=min(1.0, (workers.seconds - communicated) / seconds),
            staleness=sharing.staleness,
        )
        losses, reported, communicated = [], time.monotonic(), workers.seconds
        reported_taken = max(num_batches, reported_taken)
        return progress

    def measure() -> Progress:
        perplexity = _measured(sharing, dev, options)
        best = perplexity < counters.best_perplexity
        counters.worse_checks = 0 if best else counters.worse_checks + 1
        if best:
            counters.best_perplexity, counters.best_step = perplexity, counters.step
        return report(counters.taken, perplexity, best=best)

    def has_ended() -> bool:
        out_of_time = options.max_minutes is not None and counters.minutes >= options.max_minutes
        return counters.taken >= total or out_of_time or counters.worse_checks >= options.patience

    if options.init is not None and math.isinf(counters.best_perplexity):
        yield measure()
    done = has_ended()  # a resumed training run may have been interrupted after its last step
    while not done:
        first, last = counters.taken, min(total, sharing.next_synchronization(counters.taken))
        for assignment in sharing.assignments(first, last):
            minutes = counters.minutes if sharing.in_step else elapsed()
            spent = 0.0 if options.max_minutes is None else minutes / options.max_minutes
            step = sharing.steps(assignment.at)
            rate = learning_rate(options, step, max(assignment.at / total, spent))
            sharing.before_step()
            losses.append(
                gradient(
                    module,
                    order,
                    assignment.number,
                    sampler,
                    options,
                    together=assignment.together,
                    forward=sharing.forward,
                )
            )
            update(module, optimizer, rate, options, step)
            sharing.after_step()
            local_steps += 1
            if workers.rank == 0 and spent >= 1.0:
                sharing.stop_early()
            if local_steps % REPORT_STEPS == 0 and assignment.at + workers.size < last:
                yield report(assignment.at)
        before = counters.step
        counters.taken = sharing.synchronize(last)
        counters.step = sharing.steps(counters.taken)
        counters.minutes = elapsed()
        if options.max_minutes is not None:
            counters.minutes = workers.agree(counters.minutes)
        done = has_ended()
        if done or counters.step // options.check_steps > before // options.check_steps:
            measured = measure()
            done = done or has_ended()
            yield measured
        elif counters.step // REPORT_STEPS > before // REPORT_STEPS:
            yield report(counters.taken)


def _measured(sharing: SingleWorker, dev: Sentences, options: TrainOptions) -> float:
    """Compute the perplexity with the weights in their storage precision; each worker scores a part of the text.

    The perplexity is infinite if the loss is NaN, or if the perplexity exceeds the range of floats.
    """
    workers = sharing.workers
    with sharing.result():
        stored = checkpoint.as_stored(sharing.learner.module)
    sums = negative_logprob(stored, dev, options.device, part=slice(workers.rank, None, workers.size))
    nats, tokens = workers.total(*sums)
    loss = nats / tokens
    return workers.agree(math.exp(loss) if loss <= LARGEST else math.inf)
