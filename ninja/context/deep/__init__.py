"""Neural networks for phrases: an encoder, and a pointer that is combined with a language model."""
