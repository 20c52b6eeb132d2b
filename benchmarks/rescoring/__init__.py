"""Speed and error rates of rescoring: the engine alone, beside Kaldi, by algorithm and width, and as a service."""
