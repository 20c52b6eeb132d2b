"""Definitions of the networks that Ninja trains or runs, and the models that it ships.

The definitions require only torch and import nothing from other packages of `ninja`, so that they can be copied
elsewhere. Importing this package does not import torch; most of its modules do.
"""

from pathlib import Path

ENGLISH = Path(__file__).with_name("english.safetensors")
"""The shipped English word model, used by default; its card is ``english.md``."""

ENGLISH_NGRAM = Path(__file__).with_name("english_ngram.arpa.gz")
"""A shipped trigram model, with the same training text and vocabulary as ENGLISH, but hundreds of times as fast; its
card is ``english_ngram.md``."""

CONTEXT = Path(__file__).with_name("context.safetensors")
"""The shipped encoder of English phrases, which finds phrases that sound alike; its card is ``context.md``."""

CORRECTION = Path(__file__).with_name("correction.toml")
"""The weights that `ninja correct` uses to decide on corrections; their card is ``correction.md``."""

__all__ = ["CONTEXT", "CORRECTION", "ENGLISH", "ENGLISH_NGRAM"]
