from benchmarks.command import Group

Group("benchmarks.stress", "interrupts", "kill", "soak", "bounds")()
