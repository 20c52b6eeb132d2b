"""Kaldi files: lattice archives, matrices, transition models, lexicons."""
