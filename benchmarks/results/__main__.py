from benchmarks.command import Group

Group("benchmarks.results", "models")()
