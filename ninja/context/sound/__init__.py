"""Sound of words: pronunciations, letters, and costs of confusing phones."""
