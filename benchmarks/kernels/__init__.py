"""CPU time of kernels on one core: lattice operations, n-gram models and CTC decoding."""
