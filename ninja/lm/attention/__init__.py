"""Networks with attention as language models, with cached keys and values along a trie of histories."""
