"""Behaviour under stress: signals, kills, an hour of work, and costly files."""
