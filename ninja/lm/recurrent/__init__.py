"""Recurrent networks as language models: states are rows of a pool, and each call computes one step of a batch."""
