from benchmarks.command import Group

Group("benchmarks.results", "confidence", "evidence", "models", "splits", "page", default="page")()
