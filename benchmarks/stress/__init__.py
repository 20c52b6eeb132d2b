"""Behaviour under stress: signals, kills, an hour of work, and files made to be costly."""
