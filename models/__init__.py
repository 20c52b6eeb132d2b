"""Definitions of the networks Ninja trains, and the checkpoint it ships.

Plain torch that imports nothing of `ninja`: a definition can be read, or taken elsewhere, by itself.
Importing this package does not import torch; its modules do.
"""

from pathlib import Path

ENGLISH = Path(__file__).with_name("english.pt")
"""The shipped English word model, used where no other is named; its card is ``english.md``."""

__all__ = ["ENGLISH"]
