"""What a server has done, in the text that Prometheus reads."""

import bisect
import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> list[str]:
        totals = list(itertools.accumulate(self._counts))
        bounds = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        pairs = zip(bounds, totals, strict=True)
        found = [f'{name}_bucket{{le="{bound}"}} {total}' for bound, total in pairs]
        return [*found, f"{name}_sum {self._sum:.9g}", f"{name}_count {totals[-1]}"]


class Metrics:
    """All counters; routes are named by their templates, so nothing a client sends is shown."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds = Histogram(SECONDS)
        self._batches = Histogram(ROWS)
        self._ended: Counter[str] = Counter()
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "oryx_serve_resident_bytes": ("Resident memory of the process.", resident_bytes)
        }

    def count_request(self, route: str, status: int, seconds: float) -> None:
        self._requests[route, status] += 1
        self._seconds.add(seconds)

    def count_refusal(self, status: int) -> None:
        """An answer to what is no request, or came too slowly to be one."""
        self._requests["-", status] += 1

    def count_batch(self, rows: int) -> None:
        self._batches.add(rows)

    def count_ended(self, why: str) -> None:
        """A session that has ended."""
        self._ended[why] += 1

    def watch(self, name: str, about: str, read: Callable[[], float]) -> None:
        """A number that is read whenever somebody asks."""
        self._gauges[name] = (about, read)

    def render(self) -> str:
        """The text format of Prometheus, version 0.0.4."""
        lines = _head("oryx_serve_requests_total", "counter", "Requests by route and status.")
        for (route, status), count in sorted(self._requests.items()):
            labels = f'route="{route}",status="{status}"'
            lines.append(f"oryx_serve_requests_total{{{labels}}} {count}")
        lines += _head("oryx_serve_request_seconds", "histogram", "Time to answer a request.")
        lines += self._seconds.lines("oryx_serve_request_seconds")
        lines += _head("oryx_serve_batch_rows", "histogram", "Requests computed together.")
        lines += self._batches.lines("oryx_serve_batch_rows")
        lines += _head("oryx_serve_sessions_ended_total", "counter", "Sessions that have ended.")
        for why, count in sorted(self._ended.items()):
            lines.append(f'oryx_serve_sessions_ended_total{{why="{why}"}} {count}')
        for name, (about, read) in self._gauges.items():
            lines += [*_head(name, "gauge", about), f"{name} {read():.12g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def resident_bytes() -> float:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError, ValueError):
        return 0.0
