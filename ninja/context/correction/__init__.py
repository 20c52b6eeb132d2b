"""Correction of transcripts: phrases of lists replace words that sound like them."""
