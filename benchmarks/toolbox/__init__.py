"""CPU time and memory of whole ``ninja`` commands: compared with Kaldi's, on threads, and on long recordings."""
