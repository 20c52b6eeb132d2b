from benchmarks.command import Group

Group("benchmarks.phrases", "retrieval", "variants")()
