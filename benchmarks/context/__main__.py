from benchmarks.command import Group

Group(
    "benchmarks.context",
    "tables",
    "bound",
    "pointer",
    "both",
    "combination",
    "written",
    "whisper",
    "correct",
    "learn",
    "training",
)()
