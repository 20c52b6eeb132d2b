"""Hugging Face's models behind the protocol: networks over pieces of words.

spelling       words ──► pieces
piece_network  pieces ──► scores, whatever the network is called
causal         a language model of these, with every algorithm
masked         one that predicts each piece from all others, for whole sentences only
loading        a directory ──► one of the two
"""
