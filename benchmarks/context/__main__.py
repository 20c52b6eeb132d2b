from benchmarks.command import Group

Group("benchmarks.context", "tables", "bound", "pointer", "written", "whisper", "correct", "learn")()
