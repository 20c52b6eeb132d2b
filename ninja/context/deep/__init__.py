"""Networks that read phrases: an encoder, and a pointer beside a language model."""
