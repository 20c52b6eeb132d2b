"""Training in several processes: starting them, and combining their updates."""
