from benchmarks.command import Group

Group("benchmarks.training", "tables", "speed", "huggingface")()
