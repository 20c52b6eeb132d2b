"""Kaldi's RNNLMs: components and graph make nnet3 networks, and these with their words language models."""
