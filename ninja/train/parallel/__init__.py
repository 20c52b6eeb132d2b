"""Training in several processes: starting the processes, and combining their updates."""
