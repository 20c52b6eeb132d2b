"""The contextual grammar: word histories followed through class language models by token passing."""
