"""Training on several processes: who they are, how they start, and how they share what they learn."""
