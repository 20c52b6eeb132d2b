"""Server metrics in the Prometheus format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ninja.libraries import needed_for
from ninja.serve.scorer import Scorer

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Request counters, and the scorer's counts at the time of a scrape."""

    def __init__(self, scorer: Scorer) -> None:
        with needed_for("a server"):
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ninja_requests", "Requests, by path and status.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "ninja_request_seconds",
            "Duration of requests in seconds.",
            ["path"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.in_progress = Gauge("ninja_requests_in_progress", "Requests in progress.", registry=self.registry)
        self.incomplete = Counter(
            "ninja_incomplete", "Lattices whose deadline expired before the search ended.", registry=self.registry
        )
        self.sessions = Gauge("ninja_sessions", "Open streaming sessions.", registry=self.registry)
        self.updates = Counter("ninja_updates", "Updates of streaming sessions.", registry=self.registry)
        self.corrections = Counter(
            "ninja_corrections", "Corrections in the best hypotheses of transcripts.", registry=self.registry
        )
        self.registry.register(_ScorerCounts(scorer))

    def exposition(self) -> tuple[bytes, str]:
        """Return all metrics as ``(text in the Prometheus format, media type)``."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class _ScorerCounts:
    """Prometheus collector for the counts of a scorer."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def collect(self) -> Iterator[Any]:
        """Yield the numbers of lattices, arcs and model calls as metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        waiting, running = self._scorer.in_flight()
        total = self._scorer.totals()
        yield GaugeMetricFamily("ninja_lattices_waiting", "Lattices waiting for a batch.", waiting)
        yield GaugeMetricFamily("ninja_batch_lattices", "Lattices in a batch.", running)
        yield CounterMetricFamily("ninja_lattices", "Lattices rescored.", total.lattices)
        yield CounterMetricFamily("ninja_arcs", "Arcs of the submitted lattices.", total.arcs)
        yield CounterMetricFamily("ninja_lm_calls", "Calls of the language model.", total.calls)
        yield CounterMetricFamily("ninja_lm_words", "Words that the language model scored.", total.scores)
        yield CounterMetricFamily("ninja_lm_seconds", "Seconds spent in the language model.", total.lm_seconds)
