from benchmarks.command import Group

Group("benchmarks.kernels", "graph", "ngram", "ctc")()
