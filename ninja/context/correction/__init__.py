"""Transcript correction: phrases from lists replace words that sound like them."""
