"""Readers and writers for Kaldi files: lattice archives, matrices, transition models and lexicons."""
