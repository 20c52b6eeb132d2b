"""Kaldi RNNLMs: nnet3 networks, and language models that consist of a network and its words."""
