"""Find names that a CTC model misrecognises, by a beam search with a list of names.

A small convolutional model is trained, within seconds, on synthetic commands with names. It then decodes commands with
other names, without and with the names as phrases. Run from any folder; needs torch.
"""

import numpy as np
import torch
from synthetic_commands import LETTERS, SIZE, Speech, compare, held_out_names, held_out_sentences, training_sentences

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.decoding import CtcOptions, SpelledTracker, Spelling, ctc_nbest, ctc_units

UNITS = ["<blank>", *LETTERS]
SEARCH = CtcOptions(beam=20, max_units=50)
SENTENCES = 40  # of each kind


def train(speech, steps=200, batch=12, seed=1):
    """Train a model on names of random syllables; return a function from frames to log-probabilities."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = torch.nn.Sequential(
        torch.nn.Conv1d(SIZE, 64, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv1d(64, 64, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv1d(64, len(UNITS), 5, padding=2),
    )
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    sentences = training_sentences(2000, random)
    for _ in range(steps):
        texts = [sentences[at] for at in random.integers(0, len(sentences), batch)]
        frames = [torch.from_numpy(speech.say(text, random)) for text in texts]
        padded = torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)  # [batch, frames, SIZE]
        logprob = model(padded.mT).log_softmax(1).permute(2, 0, 1)  # [frames, batch, units]
        target = torch.tensor([UNITS.index(letter) for text in texts for letter in text])
        lengths = torch.tensor([len(matrix) for matrix in frames]), torch.tensor([len(text) for text in texts])
        loss = torch.nn.functional.ctc_loss(logprob, target, *lengths)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()

    @torch.inference_mode()
    def log_probs(frames):
        return model(torch.from_numpy(frames).T[None])[0].T.log_softmax(-1).numpy()

    return log_probs


def main():
    """Print the names that each search finds, and the effect of the list on sentences without names."""
    torch.set_num_threads(1)
    speech = Speech()
    model = train(speech)
    random = np.random.default_rng(2)
    names = held_out_names(100, random)
    commands, general = held_out_sentences(SENTENCES, names, random)
    matrices = [model(speech.say(text, random)) for text in commands + general]

    units = ctc_units(UNITS, "<blank>", boundary=" ")
    tracker = SpelledTracker(Spelling(UNITS, boundary=" ", silent=["<blank>"]))
    entities = [PhraseList("contacts", {"@name": tuple(map(Phrase, names))})]

    def transcripts(lists):
        return [ctc_nbest(matrix, units, None, SEARCH, tracker=tracker, lists=lists)[0].text for matrix in matrices]

    compare(names, commands, general, transcripts([]), transcripts(entities))


if __name__ == "__main__":
    main()
