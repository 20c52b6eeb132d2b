"""Decode with PocketSphinx, and rescore each utterance while the next one is decoded.

    python examples/live_pocketsphinx.py                             two recordings beside this file
    python examples/live_pocketsphinx.py a.wav b.wav                 16 kHz, 16 bits, one channel
    python examples/live_pocketsphinx.py --say "the boat was late"   spoken by flite, or by espeak-ng

Needs PocketSphinx (``pip install pocketsphinx``), whose package includes an English model.
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
RATE = 16000  # samples per second
CHUNK = RATE // 10  # samples per block of audio
# PocketSphinx's lattices have no scores of its language model: graph costs are those of the rescoring model only.
OPTIONS = ninja.RescoreOptions(lm_weight=1.0, acoustic_scale=0.07, output="best")


def spoken(text, folder):
    """Synthesise a text by flite, or by espeak-ng, which PocketSphinx recognises less well; return the samples."""
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
    signal = np.frombuffer(frames, "<i2")
    if rate == RATE:
        return signal
    size = len(signal) * RATE // rate
    return (np.fft.irfft(np.fft.rfft(signal)[: size // 2 + 1], size) * size / len(signal)).astype(np.int16)


def decode(decoder, audio, key, words):
    """Decode an utterance in blocks; return the recogniser's words and lattice."""
    decoder.start_utt()
    for begin in range(0, len(audio), CHUNK):
        decoder.process_raw(audio[begin : begin + CHUNK].tobytes())
    decoder.end_utt()
    hypothesis, output = decoder.hyp(), decoder.get_lattice()
    if hypothesis is None or output is None:
        return "", None
    with tempfile.TemporaryDirectory() as folder:  # PocketSphinx writes lattices to files only
        path = Path(folder) / f"{key}.lat"
        output.write(str(path))
        [(_, lattice)] = ninja.read(path, words=words)
    return hypothesis.hypstr, lattice


def main():
    """Decode recordings one after the other; print the recognised words, and the rescored words when they are done."""
    parser = argparse.ArgumentParser(description="Rescore PocketSphinx's output live.")
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--say", metavar="TEXT", action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        audio = {f"said{number}": spoken(text, Path(folder)) for number, text in enumerate(arguments.say, 1)}
    recordings = arguments.recordings or ([] if arguments.say else sorted(SPEECH.glob("*.wav")))
    audio |= {path.stem: samples(path) for path in recordings}

    decoder = pocketsphinx.Decoder(samprate=RATE, loglevel="FATAL")
    words = ninja.SymbolTable.growing()  # one for all utterances

    def show(future):
        rescored = future.result()
        print(f"{rescored.key:<8} better  {' '.join(words.spell(ninja.graph.best_path(rescored).words))}", flush=True)

    with ninja.Rescorer(ninja.lm.load(), OPTIONS) as rescorer:
        for key, recording in audio.items():
            text, lattice = decode(decoder, recording, key, words)
            print(f"{key:<8} heard   {text}", flush=True)
            if lattice is not None:
                rescorer.submit(lattice).add_done_callback(show)  # decode the next utterance meanwhile


if __name__ == "__main__":
    main()
