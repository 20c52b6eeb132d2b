"""Attention networks as language models, with keys and values cached along a trie of histories."""
