"""Word error rates of docs/results.md."""
