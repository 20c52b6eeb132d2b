from benchmarks.command import Group

Group("benchmarks.rescoring", "engine", "kaldi", "front", "service", "http", "streaming")()
