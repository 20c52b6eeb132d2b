"""Speed and error rates of rescoring: the engine, a comparison with Kaldi, by algorithm and width, and as a service."""
