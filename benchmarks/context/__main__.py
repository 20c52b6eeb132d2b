from benchmarks.command import Group

Group(
    "benchmarks.context",
    "tables",
    "bound",
    "pointer",
    "both",
    "combination",
    "single_evidence",
    "written",
    "whisper",
    "correct",
    "learn",
    "training",
)()
