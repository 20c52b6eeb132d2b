"""Commands named after Kaldi's programs."""
