"""Hugging Face's models behind the protocol: words are split into pieces, which networks read."""
