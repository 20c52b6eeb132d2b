"""CPU time and memory of whole ``ninja`` commands: beside Kaldi's, on threads, and on long recordings."""
