"""`oryx data check`: all checks over all rows, in one pass and bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from oryx_marl import registry
from oryx_marl.data.quality.checks import simulator
from oryx_marl.data.quality.issues import KINDS, SEVERITIES, Check, Finding
from oryx_marl.data.view import Chunk, View, chunk_rows, chunks

PACKAGE = "data.quality.checks"
Watch = Callable[[Iterator[Chunk], int], Iterable[Chunk]]


def validate(
    view: View,
    watch: Watch = lambda all_chunks, total: all_chunks,
    environment: str | None = None,
) -> list[Finding]:
    """What is wrong with a dataset, errors first; `watch` may show how far it is.

    `environment` names the one whose simulator the log is compared with, if not that of the data.
    """
    made = {
        name: registry.load("data.quality.checks", name).make
        for name in registry.names("data.quality.checks")
    }
    made["simulator"] = partial(simulator.make, environment=environment)
    checks: list[Check] = [make(view) for make in made.values()]
    total = -(-view.num_rows // chunk_rows(view))
    for chunk in watch(chunks(view), total):
        for check in checks:
            check.see(chunk)
    findings: list[Finding] = []
    for check in checks:
        check.end()
        findings += check.places.findings()
    order = {kind: number for number, kind in enumerate(KINDS)}
    rank = {severity: number for number, severity in enumerate(SEVERITIES)}
    return sorted(findings, key=lambda found: (rank[found.severity], order[found.kind]))
