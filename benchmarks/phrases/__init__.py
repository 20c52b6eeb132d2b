"""Retrieval of phrases by the words that a recogniser wrote in their place."""
