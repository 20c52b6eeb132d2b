from benchmarks.command import Group

Group("benchmarks.training", "tables", "curves", "speed", "huggingface")()
