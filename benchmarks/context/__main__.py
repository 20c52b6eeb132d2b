from benchmarks.command import Group

Group(
    "benchmarks.context", "tables", "bound", "pointer", "both", "written", "whisper", "correct", "learn", "training"
)()
