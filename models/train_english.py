"""Train the shipped English model and write its card.

    python models/train_english.py train.txt.gz dev.txt.gz FOLDER
    python models/train_english.py train.txt.gz dev.txt.gz FOLDER finish

The first command trains FOLDER/english.pt, or resumes an interrupted training run, and then runs the second command.
The second command rounds the best weights to int8, trains the layers that estimate the normaliser, and writes
english.safetensors and english.md to this folder. Training uses the options below, and otherwise works as in
``ninja train``.
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
    patience=1000,  # the learning rate falls to 0, so the last measurement is the best
)
NORMALISER = 256  # width of the layers that estimate the normaliser
OUTPUT = Path(__file__).resolve().with_name("english.safetensors")

CARD = """\
# The English model

A word-level LSTM language model, `english.safetensors`, used by default (`ninja rescore` without `--rnnlm`).
This card is written by `models/train_english.py` from the facts in the checkpoint.

| | |
|---|---|
| Network | {layers} LSTM layers of {hidden} cells, projected to {projection}, the last also to {embedding}; \
tied embeddings of {embedding}, output bias (`lstm.py`) |
| Vocabulary | {vocabulary:,} words: the commonest of the training text, and `<s>`, `</s>`, `<unk>` |
| Size | {parameters:,} parameters; {bytes:,} bytes: matrices of int8 with a scale for each row, \
the rest in half precision |
| Training text | {train_words:,} words in {train_sentences:,} sentences, {train_unknown:.2%} of them `<unk>` |
| Held-out text | {dev_words:,} words of four other books by other authors, {dev_unknown:.2%} of them `<unk>` |
| **Perplexity** | **{perplexity:.2f}** on the held-out text |
| Normaliser | estimated by two layers of {normaliser}; \
off by {normaliser_error:.3f} nats on the held-out text (root mean square; mean {normaliser_bias:+.3f}) |
| Training | {step:,} steps of {workers} workers and {batch_tokens:,} tokens each, block momentum, \
{epochs_done:.2f} epochs, {minutes:.0f} minutes, torch {torch} |

The perplexity is exact: full softmax, of the weights as stored, each sentence alone from `<s>`; `</s>` counts as a
token, and so does `<unk>`, which replaces each word outside the vocabulary.

`ninja rescore` takes the estimate of the log-normaliser, as `ninja.lm.load()` does: a score then needs no softmax over
{vocabulary:,} words, and is off by about what the table says. It computes in single precision on NumPy; with
`--backend torch` in bfloat16 if the processor supports it.
`ninja rescore --normalize`, `ninja lm score --normalize` and `ninja.lm.load(normalize=True)` compute exact
probabilities in single precision. The layers were trained on the network's outputs over a million histories of the
training text, in which a word of ten was replaced by another one; the rest of the network was unchanged.

## Data and licence

English prose from 172 books published before 1930, in the public domain in the United States: novels mostly, British
and American, at most some 235,000 words by one author. One sentence a line, lower case, letters and apostrophes only;
*mr*, *mrs*, *dr* are written *mister*, *missus*, *doctor*. Books and sentences that occur in LibriSpeech's test-clean,
test-other or dev-clean were left out, so that the model may be judged on those. Every book, its source and its licence
are listed in the SOURCE.txt that comes with the text. The model is under the licence of Ninja, Apache-2.0.

    train  sha256 {train_sha256}
    dev    sha256 {dev_sha256}

## What it is good for

Read prose. It has seen no telephone calls, no commands, no spelled numbers of our century and no names after 1930;
for those, train a model on text of your own with `ninja train`. The language of the books is that of their time, and so
are their opinions, and the model's probabilities follow both.

## How to make it again

    python models/train_english.py train.txt.gz dev.txt.gz FOLDER

The learning rate falls to zero over the epochs. {workers} processes of one thread each average their weights every
{block_steps} steps (`--parallel bmuf`). The shipped weights were trained so, but interrupted and resumed several times
from the saved state, the first 3,000 steps towards 10 epochs, the next 600 towards 6, the rest towards 5: the recipe
makes a model as good, not the same bits.

Seed {seed}, learning rate {learning_rate}, warm-up of {warmup} steps, dropout {dropout}, the same in all the steps of a
sentence, gradients cut to a norm of {clip}, Adam, bfloat16 products with float32 weights, softmax over the target and
about {samples:,} words, each drawn with its own probability (Poisson sampling, count to the power 0.75).
"""


def write_card() -> None:
    """Write ``english.md``, which describes the checkpoint next to it."""
    stored = checkpoint.read(OUTPUT)
    parameters = sum(weight.numel() for weight in stored.module.parameters())
    card = CARD.format(**stored.card, parameters=parameters, bytes=os.path.getsize(OUTPUT))
    OUTPUT.with_suffix(".md").write_text(card, encoding="utf-8")


def finish(trained: Path, train_text: str, dev_text: str) -> None:
    """Install the best weights as int8, with a normaliser that is trained on the outputs of the rounded network."""
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
    """Print every measurement, and the progress at intervals."""
    if progress.perplexity is not None or progress.step % 200 == 0:
        print(progress, flush=True)


def main() -> None:
    """Train or finish the model, as the command line specifies."""
    train_text, dev_text, folder, *rest = sys.argv[1:]
    trained = Path(folder) / "english.pt"
    if rest != ["finish"]:
        resume = Path(f"{trained}.state").exists()
        print(train(train_text, dev_text, trained, dataclasses.replace(OPTIONS, resume=resume), show), flush=True)
    finish(trained, train_text, dev_text)


if __name__ == "__main__":
    main()
