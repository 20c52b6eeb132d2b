"""Synthetic "speech" for the examples of context: commands with names, letter by letter, with noise.

A letter is one to four frames of its feature vector with noise, at a regular pace; letters that sound alike have close
vectors. A model can recognise training words by their other letters, but a new name only by its sounds. Use figures
measured on these data to compare search methods; they do not transfer to real speech.
"""

import numpy as np

from ninja.evaluate import score

LETTERS = " abcdefghijklmnopqrstuvwxyz"
ALIKE = ("bp", "dt", "gk", "mn", "sz", "fv", "ei", "ou", "ac", "lr", "hj", "wy", "qx")  # pairs of similar vectors
SIZE = 24  # dimension of a feature vector

WITH_NAME = (
    "call {}",
    "call {} at home",
    "send a message to {}",
    "send {} a message",
    "play a song by {}",
    "remind me to write to {}",
    "what is the number of {}",
    "tell {} that i am late",
    "add {} to the list",
)
GENERAL = (
    "turn off the {room} light",
    "turn on the light in the {room}",
    "wake me up at {hour} in the morning",
    "set a timer for {hour} minutes",
    "what is the weather {day}",
    "will it rain {day}",
    "play some music in the {room}",
    "remind me to clean the {room} {day}",
    "is there a train at {hour} {day}",
)
ROOMS = ("kitchen", "bedroom", "garden", "office", "living room", "bathroom")
HOURS = ("two", "three", "five", "seven", "eight", "ten", "eleven", "twelve")
DAYS = ("today", "tomorrow", "on monday", "on friday", "this evening", "next week")
FIRST = "agnes boris celia dora edgar fiona gustav hilda ivan judith kurt lydia magda nora otto petra quentin rita"
LAST = "abbot burke cramer dorsey engel fuchs gruber hobbs ibsen joyce kubrick lund maddox nagel oakley pratt quinn"


class Speech:
    """A speaker: feature vectors of the letters, and a noise level."""

    def __init__(self, difference=2.5, noise=0.45, seed=1):
        """Draw a speaker.

        Args:
            difference: Distance between letters that sound alike; the distance of others is about seven.
            noise: Standard deviation of each feature.
            seed: Random seed of the vectors.
        """
        random = np.random.default_rng(seed)
        self.noise = noise
        self.vector = random.normal(size=(len(LETTERS), SIZE))
        for first, second in ALIKE:
            offset = random.normal(size=SIZE)
            offset *= difference / np.linalg.norm(offset)
            self.vector[LETTERS.index(second)] = self.vector[LETTERS.index(first)] + offset

    def say(self, text, random):
        """Return the frames of a text, float32 [frames, SIZE]."""
        ends = np.round(2.5 * np.arange(len(text) + 1) + random.uniform(-0.7, 0.7, len(text) + 1)).astype(np.int64)
        letters = np.repeat([LETTERS.index(letter) for letter in text], np.diff(ends))
        frames = self.vector[letters] + random.normal(0, self.noise, (len(letters), SIZE))
        return frames.astype(np.float32)


def held_out_names(count, random):
    """Draw distinct names that are not in the training data."""
    names = [f"{first} {last}" for first in FIRST.split() for last in LAST.split()]
    return [names[index] for index in random.permutation(len(names))[:count]]


def training_name(random):
    """Draw a name of two words of random syllables."""

    def syllable():
        return "".join(random.choice(list(kind)) for kind in ("bcdfghjklmnprstvwz", "aeiou", "bdfgklmnrst"))

    return f"{syllable()}{syllable()[: random.integers(0, 4)]} {syllable()}{syllable()[: random.integers(0, 4)]}"


def general_sentence(random):
    """Draw a command without a name."""
    return str(random.choice(GENERAL)).format(
        room=random.choice(ROOMS), hour=random.choice(HOURS), day=random.choice(DAYS)
    )


def named_sentence(name, random):
    """Draw a command with a name."""
    return str(random.choice(WITH_NAME)).format(name)


def training_sentences(count, random):
    """Draw sentences, half of them with a name."""
    return [
        named_sentence(training_name(random), random) if random.random() < 0.5 else general_sentence(random)
        for _ in range(count)
    ]


def held_out_sentences(count, names, random):
    """Draw sentences with a name, and as many without."""
    commands = [named_sentence(random.choice(names), random) for _ in range(count)]
    return commands, [general_sentence(random) for _ in range(count)]


def compare(names, commands, general, plain, context):
    """Print examples, the number of names found, and the word error rate of sentences without names."""
    differences = [texts for texts in zip(commands, plain, context, strict=False) if texts[1] != texts[2]]
    for reference, before, after in differences[:3]:
        print(f"spoken        {reference}\nplain         {before}\nwith context  {after}\n")
    for search, texts in ("plain", plain), ("with context", context):
        num_found = sum(
            any(f" {name} " in f"{reference} " and f" {name} " in f" {text} " for name in names)
            for reference, text in zip(commands, texts, strict=False)
        )
        references = {str(index): text.split() for index, text in enumerate(general)}
        hypotheses = {str(index): text.split() for index, text in enumerate(texts[len(commands) :])}
        wer = score(references, hypotheses).wer
        print(f"{search:<13} {num_found} of {len(commands)} names found; word error rate without names {wer:.2f}%")
