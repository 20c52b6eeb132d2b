"""Hugging Face models as language models over words, which are split into pieces."""
