"""PocketSphinx at work, and better words of each utterance while it decodes the next one.

    python examples/live_pocketsphinx.py                             two recordings beside this file
    python examples/live_pocketsphinx.py a.wav b.wav                 16 kHz, 16 bits, one channel
    python examples/live_pocketsphinx.py --say "the boat was late"   spoken by flite, or by espeak-ng

Needs PocketSphinx (``pip install pocketsphinx``), whose package brings an English model.
"""

import argparse
import shutil
import subprocess
import tempfile
import wave
from pathlib import Path

import numpy as np
import pocketsphinx

import ninja

SPEECH = Path(__file__).parent / "speech"
RATE = 16000  # samples a second
CHUNK = RATE // 10  # samples that a microphone gives at once
# PocketSphinx's lattices hold no scores of its language model: the graph costs are ours alone.
OPTIONS = ninja.RescoreOptions(lm_weight=1.0, acoustic_scale=0.07, output="best")


def spoken(text, folder):
    """Return a recording of a text by flite, or by espeak-ng, which PocketSphinx understands less well."""
    path = folder / "spoken.wav"
    if shutil.which("flite"):
        command = ["flite", "-voice", "rms", "-t", text, "-o", path]
    elif shutil.which("espeak-ng"):
        command = ["espeak-ng", "-s", "140", "-w", path, text]
    else:
        raise SystemExit("--say needs flite or espeak-ng: apt-get install flite")
    subprocess.run(command, check=True)
    return samples(path)


def samples(path):
    """Return the samples of a recording, int16, at the rate of the recogniser."""
    with wave.open(str(path)) as recording:
        rate, frames = recording.getframerate(), recording.readframes(recording.getnframes())
    found = np.frombuffer(frames, "<i2")
    if rate == RATE:
        return found
    size = len(found) * RATE // rate
    return (np.fft.irfft(np.fft.rfft(found)[: size // 2 + 1], size) * size / len(found)).astype(np.int16)


def decode(decoder, audio, key, words):
    """Return the recogniser's words and its lattice, once it has heard an utterance chunk by chunk."""
    decoder.start_utt()
    for begin in range(0, len(audio), CHUNK):
        decoder.process_raw(audio[begin : begin + CHUNK].tobytes())
    decoder.end_utt()
    hypothesis, lattice = decoder.hyp(), decoder.get_lattice()
    if hypothesis is None or lattice is None:
        return "", None
    with tempfile.TemporaryDirectory() as folder:  # PocketSphinx gives its lattices to files only
        path = Path(folder) / f"{key}.lat"
        lattice.write(str(path))
        [(_, made)] = ninja.read(path, words=words)
    return hypothesis.hypstr, made


def main():
    """Decode recordings one after the other; print the words of each at once, and better ones as they come."""
    parser = argparse.ArgumentParser(description="Better words than PocketSphinx's, live.")
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--say", metavar="TEXT", action="append", default=[])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        audio = {f"said{number}": spoken(text, Path(folder)) for number, text in enumerate(chosen.say, 1)}
    recordings = chosen.recordings or ([] if chosen.say else sorted(SPEECH.glob("*.wav")))
    audio |= {path.stem: samples(path) for path in recordings}

    decoder = pocketsphinx.Decoder(samprate=RATE, loglevel="FATAL")
    words = ninja.SymbolTable.growing()  # one for all utterances

    def show(future):
        rescored = future.result()
        print(f"{rescored.key:<8} better  {' '.join(words.spell(ninja.graph.best_path(rescored).words))}", flush=True)

    with ninja.Rescorer(ninja.lm.load(), OPTIONS) as rescorer:
        for key, heard in audio.items():
            text, lattice = decode(decoder, heard, key, words)
            print(f"{key:<8} heard   {text}", flush=True)
            if lattice is not None:
                rescorer.submit(lattice).add_done_callback(show)  # and on with the next utterance


if __name__ == "__main__":
    main()
