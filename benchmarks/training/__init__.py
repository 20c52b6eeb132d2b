"""Training of language models: methods of sharing the work, their speed, and a model of Hugging Face."""
