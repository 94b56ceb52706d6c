"""`oryx data check`: all checks over all rows, in one pass and bounded memory."""

from collections.abc import Callable, Iterable, Iterator

from oryx_marl import registry
from oryx_marl.data.quality.issues import KINDS, SEVERITIES, Check, Finding
from oryx_marl.data.view import Rows, Stretch

PACKAGE = "data.quality.checks"
Watch = Callable[[Iterator[Stretch], int], Iterable[Stretch]]


def validate(rows: Rows, watch: Watch = lambda stretches, total: stretches) -> list[Finding]:
    """What is wrong with a dataset, errors first; `watch` may show how far it is."""
    checks: list[Check] = [
        registry.load("data.quality.checks", name).make(rows)
        for name in registry.names("data.quality.checks")
    ]
    total = -(-rows.num_rows // rows.most_rows)
    for stretch in watch(rows.stretches(), total):
        for check in checks:
            check.see(stretch)
    findings: list[Finding] = []
    for check in checks:
        check.end()
        findings += check.places.findings()
    order = {kind: number for number, kind in enumerate(KINDS)}
    rank = {severity: number for number, severity in enumerate(SEVERITIES)}
    return sorted(findings, key=lambda found: (rank[found.severity], order[found.kind]))
