"""The contextual grammar, which tracks word histories through class language models by token passing."""
