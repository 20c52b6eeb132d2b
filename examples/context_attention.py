"""Find names that an attention model misrecognises, by token-passing beam search with a list of names.

A small encoder-decoder with attention is trained, within seconds, on synthetic commands with names. It then decodes
commands with other names, without and with the names as phrases. All utterances are searched in one batch. Run from any
folder; needs torch.
"""

import numpy as np
import torch
from synthetic_commands import LETTERS, SIZE, Speech, compare, held_out_names, held_out_sentences, training_sentences

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.decoding import BeamOptions, SpelledTracker, Spelling, beam_search

UNITS = ["<s>", "</s>", *LETTERS]
BOS, EOS = 0, 1
SEARCH = BeamOptions(beam=8, max_length=50)
SENTENCES = 40  # of each kind


class Listener(torch.nn.Module):
    """A convolutional encoder, and a recurrent decoder whose attention is centred at a constant pace."""

    def __init__(self, size=96):
        super().__init__()
        self.encoder = torch.nn.Sequential(
            torch.nn.Conv1d(SIZE, size, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.Conv1d(size, size, 5, padding=2, stride=2),
            torch.nn.ReLU(),
        )
        self.key = torch.nn.Linear(size, size)
        self.embedding = torch.nn.Embedding(len(UNITS), size)
        self.decoder = torch.nn.GRU(size, size, batch_first=True)
        self.query = torch.nn.Linear(size, size)
        self.out = torch.nn.Sequential(
            torch.nn.Linear(2 * size, size), torch.nn.ReLU(), torch.nn.Linear(size, len(UNITS))
        )
        self.pace = torch.nn.Parameter(torch.tensor(1.25))  # encoder positions per letter
        self.width = torch.nn.Parameter(torch.tensor(1.0))  # logarithm of the width of the attention window

    def encode(self, frames):
        """Return (memory [batch, places, size], mask without padding [batch, places])."""
        padded = torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)  # [batch, frames, SIZE]
        memory = self.encoder(padded.mT).mT  # [batch, places, size]
        places = torch.tensor([(len(matrix) + 1) // 2 for matrix in frames])
        return memory, torch.arange(memory.shape[1]) < places[:, None]

    def decode(self, memory, mask, units, hidden, length):
        """Return (log-probabilities [batch, time, units], hidden state) after units [batch, time]."""
        after, hidden = self.decoder(self.embedding(units), hidden)
        at = (length[:, None] + torch.arange(units.shape[1])) * self.pace  # [batch, time]
        far = (torch.arange(memory.shape[1]) - at[..., None]) / self.width.exp()  # [batch, time, places]
        energy = self.query(after) @ self.key(memory).mT / memory.shape[-1] ** 0.5 - far.square() / 2
        attention = energy.masked_fill(~mask[:, None], -torch.inf).softmax(-1)  # [batch, time, places]
        logits = self.out(torch.cat([attention @ memory, after], -1))
        return logits.log_softmax(-1), hidden

    @torch.inference_mode()
    def step(self, states, units):
        """Compute one step of `beam_search`: log-probabilities and next states."""
        memory, mask, hidden, length = states
        logprob, after = self.decode(memory, mask, torch.from_numpy(units)[:, None], hidden[None], length)
        return logprob[:, 0].numpy(), (memory, mask, after[0], length + 1)

    @torch.inference_mode()
    def start(self, frames):
        """Return the states before the first unit of some utterances."""
        memory, mask = self.encode([torch.from_numpy(matrix) for matrix in frames])
        count, _, size = memory.shape
        return memory, mask, torch.zeros(count, size), torch.zeros(count, dtype=torch.int64)


def train(speech, steps=200, batch=12, seed=1):
    """Train a model on names of random syllables."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Listener()
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 8e-3, total_steps=steps)
    sentences = training_sentences(2000, random)
    pad = torch.nn.utils.rnn.pad_sequence
    for _ in range(steps):
        texts = [sentences[at] for at in random.integers(0, len(sentences), batch)]
        memory, mask = model.encode([torch.from_numpy(speech.say(text, random)) for text in texts])
        units = [torch.tensor([BOS, *(UNITS.index(letter) for letter in text), EOS]) for text in texts]
        prefix = pad([sequence[:-1] for sequence in units], batch_first=True)  # [batch, time]
        target = pad([sequence[1:] for sequence in units], batch_first=True, padding_value=-1)
        logprob, _ = model.decode(memory, mask, prefix, None, torch.zeros(batch, dtype=torch.int64))
        loss = torch.nn.functional.nll_loss(logprob.flatten(0, 1), target.flatten(), ignore_index=-1)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        schedule.step()
    return model


def main():
    """Print the names that each search finds, and the effect of the list on sentences without names."""
    torch.set_num_threads(1)
    speech = Speech()
    model = train(speech)
    random = np.random.default_rng(2)
    names = held_out_names(100, random)
    commands, general = held_out_sentences(SENTENCES, names, random)
    state = model.start([speech.say(text, random) for text in commands + general])

    tracker = SpelledTracker(Spelling(UNITS, boundary=" ", silent=["<s>", "</s>"]))
    entities = [PhraseList("contacts", {"@name": tuple(map(Phrase, names))})]

    def transcripts(lists):
        nbest = beam_search(model.step, state, tracker, [lists] * (2 * SENTENCES), SEARCH, bos=BOS, eos=EOS)
        return [hypotheses[0].text for hypotheses in nbest]

    compare(names, commands, general, transcripts([]), transcripts(entities))


if __name__ == "__main__":
    main()
