"""Networks with attention behind the protocol: keys and values along the trie of histories."""
