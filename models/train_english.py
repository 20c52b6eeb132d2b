"""Train the shipped English model and write its card.

    python models/train_english.py train.txt.gz dev.txt.gz FOLDER
    python models/train_english.py train.txt.gz dev.txt.gz FOLDER finish

The first command trains FOLDER/english.pt, or resumes an interrupted training run, and then runs the second command.
The second command quantises the best weights to int8, trains the layers that estimate the normaliser, and writes
english.safetensors and english.md to the folder of this script. Training uses the options below, and otherwise works
as in ``ninja train``.
"""

import dataclasses
import os
import sys
from pathlib import Path

from ninja.lm import checkpoint, text
from ninja.train.loop import Progress, TrainOptions, add_normaliser, train
from ninja.train.objective import perplexity

OPTIONS = TrainOptions(
    embedding=512,
    projection=256,
    dropout=0.15,
    epochs=5,
    learning_rate=1.5e-3,
    samples=2048,
    workers=2,
    parallel="bmuf",
    check_steps=200,
    patience=1000,  # the learning rate falls to 0, so the last evaluation is expected to be the best
)
NORMALISER = 256  # width of the layers that estimate the normaliser
OUTPUT = Path(__file__).resolve().with_name("english.safetensors")

CARD = """\
# The English model

A word-level LSTM language model, `english.safetensors`, used by default (`ninja rescore` without `--rnnlm`).
`models/train_english.py` writes this card from the facts in the checkpoint.

| | |
|---|---|
| Network | {layers} LSTM layers of {hidden} cells, projected to {projection} (the last layer also to {embedding}); \
tied embeddings of width {embedding}, output bias (`lstm.py`) |
| Vocabulary | {vocabulary:,} words: the most frequent words of the training text, and `<s>`, `</s>`, `<unk>` |
| Size | {parameters:,} parameters; {bytes:,} bytes: int8 matrices with a scale for each row, \
all other weights in half precision |
| Training text | {train_words:,} words in {train_sentences:,} sentences; {train_unknown:.2%} of the words are `<unk>` |
| Held-out text | {dev_words:,} words of four other books by other authors; {dev_unknown:.2%} of the words are `<unk>` |
| **Perplexity** | **{perplexity:.2f}** on the held-out text |
| Normaliser | estimated by two layers of width {normaliser}; error on the held-out text: \
{normaliser_error:.3f} nats (root mean square), {normaliser_bias:+.3f} nats (mean) |
| Training | {step:,} steps, {workers} workers with {batch_tokens:,} tokens per step each, block momentum, \
{epochs_done:.2f} epochs, {minutes:.0f} minutes, torch {torch} |

The perplexity is exact: it is computed with a full softmax and the weights as stored. Each sentence is scored
separately, starting from `<s>`. `</s>` counts as a token, and so does `<unk>`, which replaces each word outside the
vocabulary.

`ninja rescore` and `ninja.lm.load()` use the estimate of the log-normaliser. A score then needs no softmax over
{vocabulary:,} words, and has about the error shown in the table. Scores are computed in single precision on NumPy;
with `--backend torch`, they are computed in bfloat16 if the processor supports it.
`ninja rescore --normalize`, `ninja lm score --normalize` and `ninja.lm.load(normalize=True)` compute exact
probabilities in single precision. The layers that estimate the normaliser were trained on the network's outputs for a
million histories from the training text, in which one word in ten was replaced with another word; the rest of the
network was not changed.

## Data and licence

English prose from 172 books that were published before 1930 and are in the public domain in the United States: mostly
British and American novels, with at most about 235,000 words per author. The text has one sentence per line, in lower
case, and contains only letters and apostrophes; *mr*, *mrs* and *dr* are written *mister*, *missus* and *doctor*. Books
and sentences that occur in LibriSpeech's test-clean, test-other or dev-clean were excluded, so that the model can be
evaluated on these sets. The file SOURCE.txt, which comes with the text, lists every book with its source and licence.
The model has the licence of Ninja, Apache-2.0.

    train  sha256 {train_sha256}
    dev    sha256 {dev_sha256}

## Intended use

The model is intended for read prose. The training text contains no telephone calls, no commands, no spelled numbers of
our century and no names from after 1930; for such speech, train a model on your own text with `ninja train`. The books
reflect the language and the opinions of their time, and so do the model's probabilities.

## Reproducing the model

    python models/train_english.py train.txt.gz dev.txt.gz FOLDER

The learning rate falls to zero over the epochs. The {workers} workers are single-threaded processes, which average
their weights every {block_steps} steps (`--parallel bmuf`). The shipped weights were trained in this way, but training
was interrupted and resumed several times from the saved state: the first 3,000 steps were planned for 10 epochs, the
next 600 for 6 epochs, and the rest for 5 epochs. Therefore the recipe yields a model of the same quality, but not
identical weights.

The other settings are: seed {seed}; learning rate {learning_rate}; warm-up of {warmup} steps; dropout {dropout}, with
the same mask at all steps of a sentence; gradients clipped to a norm of {clip}; Adam; bfloat16 products with float32
weights; softmax over the target and about {samples:,} sampled words, each drawn with its own probability (Poisson
sampling, count to the power 0.75).
"""


def write_card() -> None:
    """Write ``english.md``, which describes the checkpoint next to it."""
    stored = checkpoint.read(OUTPUT)
    parameters = sum(weight.numel() for weight in stored.module.parameters())
    card = CARD.format(**stored.card, parameters=parameters, bytes=os.path.getsize(OUTPUT))
    OUTPUT.with_suffix(".md").write_text(card, encoding="utf-8")


def finish(trained: Path, train_text: str, dev_text: str) -> None:
    """Write the best weights as int8; on the quantised network, train the layers that estimate the normaliser."""
    stored = checkpoint.read(trained)
    module = checkpoint.as_stored(stored.module, "int8")
    sentences, dev = (text.encode(part, stored.words) for part in (train_text, dev_text))
    card = {**stored.card, "perplexity": perplexity(module, dev)}
    small = trained.with_name("english.int8.safetensors")
    checkpoint.save(dataclasses.replace(stored, module=module, card=card, storage="int8"), small)
    add_normaliser(small, sentences, dev, dataclasses.replace(OPTIONS, normaliser=NORMALISER))
    os.replace(small, OUTPUT)
    write_card()


def show(progress: Progress) -> None:
    """Print a progress report every 200 steps, and whenever the perplexity has been measured."""
    if progress.perplexity is not None or progress.step % 200 == 0:
        print(progress, flush=True)


def main() -> None:
    """Train or finish the model, as the command line specifies."""
    train_text, dev_text, folder, *remaining = sys.argv[1:]
    trained = Path(folder) / "english.pt"
    if remaining != ["finish"]:
        resume = Path(f"{trained}.state").exists()
        print(train(train_text, dev_text, trained, dataclasses.replace(OPTIONS, resume=resume), show), flush=True)
    finish(trained, train_text, dev_text)


if __name__ == "__main__":
    main()
