"""N-gram models: reading, composing, training, writing."""
