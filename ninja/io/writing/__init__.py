"""How each format is written: what it holds, what it loses, and how files are laid out."""
