"""Train the shipped English model and write its card; the recipe is explained in ``english.md``.

    python models/train_english.py train.txt.gz dev.txt.gz [MAX_MINUTES]
    python models/train_english.py train.txt.gz dev.txt.gz normaliser

The training is that of ``ninja train --normaliser 256`` with the sizes and rates it has by default. An interrupted one
goes on where it was. The second command trains only the layers that estimate the normaliser, for the network that is
there. What this adds is the card, made of the facts that the checkpoint itself carries.
"""

import os
import sys
from pathlib import Path

from ninja.lm import checkpoint, text
from ninja.lm.train.loop import Progress, TrainOptions, add_normaliser, train

NORMALISER = 256  # width of its layers
OUTPUT = Path(__file__).resolve().with_name("english.pt")

CARD = """\
# The English model

A word-level LSTM language model, `english.pt`, used where no other is named (`ninja rescore` without `--rnnlm`).
This card is written by `models/train_english.py` from the facts in the checkpoint.

| | |
|---|---|
| Network | {layers} LSTM layers of {hidden} cells, projected to {embedding}; tied embeddings, output bias (`lstm.py`) |
| Vocabulary | {vocabulary:,} words: the commonest of the training text, and `<s>`, `</s>`, `<unk>` |
| Size | {parameters:,} parameters; {bytes:,} bytes, stored in half precision, computed in single precision |
| Training text | {train_words:,} words in {train_sentences:,} sentences, {train_unknown:.2%} of them `<unk>` |
| Held-out text | {dev_words:,} words of four other books by other authors, {dev_unknown:.2%} of them `<unk>` |
| **Perplexity** | **{perplexity:.2f}** on the held-out text |
| Normaliser | estimated by two layers of {normaliser}; \
off by {normaliser_error:.3f} nats on the held-out text (root mean square; mean {normaliser_bias:+.3f}) |
| Training | {step:,} steps of {batch_tokens:,} tokens, {epochs_done:.2f} epochs, {minutes:.0f} minutes, torch {torch} |

The perplexity is exact: full softmax, of the weights as stored, each sentence alone from `<s>`; `</s>` counts as a
token, and so does `<unk>`, which stands for each word outside the vocabulary.

`ninja rescore` takes the estimate of the log-normaliser, as `ninja.lm.load()` does, and computes the layers in bfloat16
where the processor can: a score then needs no softmax over {vocabulary:,} words, and is off by about what
the table says.
`ninja rescore --normalize`, `ninja lm score --normalize` and `ninja.lm.load(normalize=True)` compute exact
probabilities in single precision. The layers were trained on the network's outputs over a million histories of the
training text, in which a word of ten was replaced by another one; the rest of the network was left as it was.

## Data and licence

English prose from 172 books published before 1930, in the public domain in the United States: novels mostly, British
and American, at most some 235,000 words by one author. One sentence a line, lower case, letters and apostrophes only;
*mr*, *mrs*, *dr* are written *mister*, *missus*, *doctor*. Books and sentences that occur in LibriSpeech's test-clean,
test-other or dev-clean were left out, so that the model may be judged on those. Every book, its source and its licence
stand in the SOURCE.txt that comes with the text. The model is under the licence of Ninja, Apache-2.0.

    train  sha256 {train_sha256}
    dev    sha256 {dev_sha256}

## What it is good for

Read prose. It has seen no telephone calls, no commands, no spelled numbers of our century and no names after 1930;
for those, train a model on text of your own with `ninja train`. The language of the books is that of their time, and so
are their opinions, and the model's probabilities follow both.

## How to make it again

    ninja train train.txt.gz --dev dev.txt.gz -o english.pt --max-minutes {minutes:.0f} --normaliser {normaliser}

or `python models/train_english.py train.txt.gz dev.txt.gz {minutes:.0f}`, which writes this card too. The learning rate
falls to zero at the end of the time given, so a faster machine sees more of the text and ends with a lower perplexity:
this model was trained on a share of two CPU cores that were busy with other work, was interrupted and resumed twice
from its saved state, and changed from two threads to one on the way, so its very bits cannot be made again. Without
`--max-minutes` the length is `--epochs`, and the same machine gives the same model.

Seed {seed}, learning rate {learning_rate}, warm-up of {warmup} steps, dropout {dropout}, gradients cut to a norm of
{clip}, Adam, bfloat16 products with float32 weights, softmax over the target and about {samples:,} words, each drawn
with its own probability (Poisson sampling, count to the power 0.75).
"""


def write_card() -> None:
    """Describe the installed checkpoint, as ``english.md`` beside it."""
    stored = checkpoint.read(OUTPUT)
    parameters = sum(weight.numel() for weight in stored.module.parameters())
    card = CARD.format(**stored.card, parameters=parameters, bytes=os.path.getsize(OUTPUT))
    OUTPUT.with_suffix(".md").write_text(card, encoding="utf-8")


def show(progress: Progress) -> None:
    """Print every measurement, and now and then the way to it."""
    if progress.perplexity is not None or progress.step % 200 == 0:
        print(progress, flush=True)


def main() -> None:
    """Run the recipe."""
    train_text, dev_text, *rest = sys.argv[1:]
    if rest == ["normaliser"]:
        words = checkpoint.read(OUTPUT).words
        sentences, dev = (text.encode(each, words) for each in (train_text, dev_text))
        add_normaliser(OUTPUT, sentences, dev, TrainOptions(normaliser=NORMALISER))
    else:
        minutes = float(rest[0]) if rest else None
        options = TrainOptions(max_minutes=minutes, normaliser=NORMALISER, resume=Path(f"{OUTPUT}.state").exists())
        print(train(train_text, dev_text, OUTPUT, options, show), flush=True)
    write_card()


if __name__ == "__main__":
    main()
