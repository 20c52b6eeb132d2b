"""Definitions of the networks Ninja trains, and the models it ships.

The definitions are plain torch and import nothing of `ninja`, so that they can be copied elsewhere.
Importing this package does not import torch; its modules do.
"""

from pathlib import Path

ENGLISH = Path(__file__).with_name("english.safetensors")
"""The shipped English word model, used by default; its card is ``english.md``."""

ENGLISH_NGRAM = Path(__file__).with_name("english_ngram.arpa.gz")
"""A trigram of the same text and words, hundreds of times as fast; its card is ``english_ngram.md``."""

CONTEXT = Path(__file__).with_name("context.safetensors")
"""The shipped encoder of English phrases, which finds those that sound alike; its card is ``context.md``."""

CORRECTION = Path(__file__).with_name("correction.toml")
"""The weights of `ninja correct`, which decide about corrections; its card is ``correction.md``."""

__all__ = ["CONTEXT", "CORRECTION", "ENGLISH", "ENGLISH_NGRAM"]
