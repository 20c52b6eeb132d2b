"""Recurrent networks as language models: states are rows of a pool, and a call computes one step for a batch."""
