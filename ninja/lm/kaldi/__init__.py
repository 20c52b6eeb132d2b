"""Kaldi's RNNLMs: its file formats, nnet3 graphs, and the language model they make.

components, graph ──► nnet3 ──► rnnlm
                       └──► stored: the same in a Ninja checkpoint
"""
