"""Kaldi's files: lattice archives, matrices, transition models, lexicons."""
