from benchmarks.command import Group

Group("benchmarks.results", "evidence", "models", "splits")()
