"""Pronunciations of words, letters as a substitute for phones, and phone confusion costs."""
