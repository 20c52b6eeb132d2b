from benchmarks.command import Group

Group("benchmarks.toolbox", "kaldi", "threads", "long", "recording", "stitch")()
