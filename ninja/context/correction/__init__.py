"""Correction of transcripts: phrases from lists replace words that sound like them."""
