"""Read, compose, train and write n-gram models."""
