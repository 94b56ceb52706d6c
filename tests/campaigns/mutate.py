"""Damaged files: each is refused with a sentence, or opens as what was written."""

import shutil
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from tests.campaigns.lab import BAD, MOST_MEMORY, Campaign, Outcome, catching, fork, perform, run

BATCH = 40
"""Mutants that one child opens, unless one of them ends it."""
FORGED = 0.12
"""Share of the mutants whose checksum is set anew, where that can be done."""
Mutant = tuple[int, Any, bool]
"""Number, subject, whether it is forged."""


def campaign(found: Campaign) -> None:
    """Opens `count` mutants."""
    originals, log = found.folder / "originals", found.folder / "log"
    built = run(lambda: _build(originals), log, 300)
    if built.kind != "ok":
        found.fail("cannot be built", told=f"{built}")
        return
    expected = built.value
    left = _plan(found)
    while left and not found.is_over():
        name = left[0][1].name
        batch = [mutant for mutant in left[:BATCH] if mutant[1].name == name]
        done = _open_batch(found, batch, originals, expected)
        left = left[done:]


def _build(originals: Path) -> dict[str, Any]:
    """Makes the subjects, and what each of them holds."""
    from tests.campaigns import subjects

    originals.mkdir()
    subjects.build(originals)
    return {each.name: each.open(originals / each.place)[0] for each in subjects.SUBJECTS}


def _plan(found: Campaign) -> list[Mutant]:
    """Which subject each mutant is made of; those of one subject follow each other."""
    from tests.campaigns import subjects

    chosen = [each for each in subjects.SUBJECTS if found.wants(each.name)]
    shares = sum(each.share for each in chosen)
    mutants: list[Mutant] = []
    for subject in chosen:
        for _ in range(max(1, round(found.count * subject.share / shares))):
            number = len(mutants)
            random = found.random(subject.name, number)
            forged = subject.forge is not None and random.random() < FORGED
            mutants.append((number, subject, forged))
    return mutants


def _open_batch(
    found: Campaign, batch: list[Mutant], originals: Path, expected: dict[str, Any]
) -> int:
    """How many of them were opened; at least one, however it ended."""
    log, place = found.folder / "log", found.folder / "mutant"
    child = fork(lambda send: _open_all(found, batch, originals, place, send), log)
    done, since = 0, time.monotonic()
    for kind, value, way, peak in child.messages():
        _judge(found, batch[done], Outcome(kind, value, peak), way, expected)
        done += 1
        if peak > MOST_MEMORY:
            child.kill()
    assert child.outcome is not None
    if child.outcome.kind in BAD and done < len(batch):
        number, subject, forged = batch[done]
        random = found.random(subject.name, number)
        way = _damage(subject, originals, place, random, forged)
        _judge(found, batch[done], child.outcome, way, expected)
        done += 1
    found.spent[batch[0][1].name] += time.monotonic() - since
    return max(done, 1)


def _open_all(
    found: Campaign, batch: list[Mutant], originals: Path, place: Path, send: Any
) -> None:
    """In a child: one after another, with what each took."""
    for number, subject, forged in batch:
        random = found.random(subject.name, number)
        way = _damage(subject, originals, place, random, forged)
        _reset_peak()
        before = _peak()
        with catching() as warned:
            kind, value = perform(lambda s=subject: s.open(place / s.place))
        if kind == "ok":
            value = [value[0], [*value[1], *warned]]
        send([kind, value, way, max(0, _peak() - before)])


def _reset_peak() -> None:
    """So that the peak is that of one mutant."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak() -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split("VmHWM:")[1].split()[0])


def _damage(subject: Any, originals: Path, place: Path, random: Random, forged: bool) -> str:
    """Makes the mutant; says how."""
    from tests.campaigns import mutations, subjects

    shutil.rmtree(place, ignore_errors=True)
    source, target = originals / subject.place, place / subject.place
    target.parent.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    if forged:
        return f"forged {subject.forge(target, random)}"
    files = [target]
    if target.is_dir():
        files = sorted(path for path in target.glob(subject.files) if path.is_file())
    # Names in databases are random: chosen by place, the same number is the same mutant.
    chosen = random.choice(files)
    way, content = mutations.mutate(chosen.read_bytes(), chosen.suffix in subjects.TEXTS, random)
    chosen.write_bytes(content)
    return f"{way} {chosen.relative_to(place)}"


def _judge(
    found: Campaign, mutant: Mutant, outcome: Outcome, way: str, expected: dict[str, Any]
) -> None:
    """Counts one mutant."""
    number, subject, forged = mutant
    found.counts["tried"] += 1
    found.counts[f"tried: {subject.name}"] += 1
    found.counts["largest memory (MB)"] = max(
        found.counts["largest memory (MB)"], outcome.peak // 2**20
    )
    kind = "memory" if outcome.kind == "ok" and outcome.peak > MOST_MEMORY else outcome.kind
    if kind == "ok":
        digest, told = outcome.value
        kind = _compare(digest, told, expected[subject.name])
    prefix = "forged: " if forged else ""
    found.counts[f"{prefix}{kind}"] += 1
    needed = {"subject": subject.name, "number": number, "way": way, "count": found.count}
    if kind in BAD:
        found.fail(f"{prefix}{kind}", told=outcome.value, **needed)
    elif kind == "opened different" and subject.is_covered and not forged:
        digest = outcome.value[0]
        names = [name for name in digest if digest[name] != expected[subject.name].get(name)]
        found.fail("silently different", differing=names, **needed)


def _compare(digest: dict[str, str], told: list[str], expected: dict[str, str]) -> str:
    if digest == expected:
        return "opened equal"
    differing = Counter(name for name in digest if digest[name] != expected.get(name))
    missing = [name for name in expected if name not in digest]
    if told and (missing or differing):
        return "opened, damage told"
    return "opened different"
