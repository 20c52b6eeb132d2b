"""Synthetic "speech" for the examples of context: commands with names, letter by letter, with noise.

A letter is one to four frames of its feature vector with noise, at an even pace; letters that sound alike have similar
vectors. A recogniser knows the words of its training by their other letters, too, but a new name only by its sounds.
Figures measured on these data compare search methods; they do not transfer to real speech.
"""

import numpy as np

from ninja.evaluate import score

LETTERS = " abcdefghijklmnopqrstuvwxyz"
ALIKE = ("bp", "dt", "gk", "mn", "sz", "fv", "ei", "ou", "ac", "lr", "hj", "wy", "qx")  # pairs of similar vectors
SIZE = 24  # of a feature vector

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
    """A speaker: the feature vectors of the letters, and how much noise there is."""

    def __init__(self, difference=2.5, noise=0.45, seed=1):
        """Draw a speaker.

        Args:
            difference: Distance between letters that sound alike; others are about seven apart.
            noise: Standard deviation of each feature.
            seed: Of the vectors.
        """
        random = np.random.default_rng(seed)
        self.noise = noise
        self.vector = random.normal(size=(len(LETTERS), SIZE))
        for one, other in ALIKE:
            apart = random.normal(size=SIZE)
            apart *= difference / np.linalg.norm(apart)
            self.vector[LETTERS.index(other)] = self.vector[LETTERS.index(one)] + apart

    def say(self, text, random):
        """Return the frames of a text, float32 [frames, SIZE]."""
        ends = np.round(2.5 * np.arange(len(text) + 1) + random.uniform(-0.7, 0.7, len(text) + 1)).astype(np.int64)
        letters = np.repeat([LETTERS.index(letter) for letter in text], np.diff(ends))
        frames = self.vector[letters] + random.normal(0, self.noise, (len(letters), SIZE))
        return frames.astype(np.float32)


def held_out_names(count, random):
    """Draw some names, none twice, that training has not seen."""
    both = [f"{first} {last}" for first in FIRST.split() for last in LAST.split()]
    return [both[at] for at in random.permutation(len(both))[:count]]


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
    """Draw sentences of which half have a name."""
    return [
        named_sentence(training_name(random), random) if random.random() < 0.5 else general_sentence(random)
        for _ in range(count)
    ]


def held_out_sentences(count, names, random):
    """Draw sentences with a name, and as many without."""
    named = [named_sentence(random.choice(names), random) for _ in range(count)]
    return named, [general_sentence(random) for _ in range(count)]


def compare(names, named, general, plain, context):
    """Print some sentences with names, how many names were found, and the word error rate of those without."""
    for said, *found in [each for each in zip(named, plain, context, strict=False) if each[1] != each[2]][:3]:
        print(f"said          {said}\nplain         {found[0]}\nwith context  {found[1]}\n")
    for search, found in ("plain", plain), ("with context", context):
        right = sum(
            any(f" {name} " in f"{said} " and f" {name} " in f" {text} " for name in names)
            for said, text in zip(named, found, strict=False)
        )
        references = {str(at): text.split() for at, text in enumerate(general)}
        heard = {str(at): text.split() for at, text in enumerate(found[len(named) :])}
        wer = score(references, heard).wer
        print(f"{search:<13} {right} of {len(named)} names found; word error rate without names {wer:.2f} %")
