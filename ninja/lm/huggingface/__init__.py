"""Hugging Face models as language models over words; the words are split into pieces."""
