"""Recurrent networks behind the protocol: states in a pool, one step a call."""
