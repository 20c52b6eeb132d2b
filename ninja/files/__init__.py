"""Bytes in files: opened, unpacked, peeked at, and written so that outputs appear whole."""
