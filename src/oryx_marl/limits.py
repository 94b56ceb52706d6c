"""How much a file from elsewhere may ask for before it is refused, in one place.

A size that a file claims is compared with what the file holds before memory is taken. The limits
are far beyond what honest logs, policies and runs need; whoever trusts a file lifts them all with
`--allow-large`, or the environment variable ORYX_ALLOW_LARGE=1.
"""

import os

from oryx_marl.errors import OryxError

VARIABLE = "ORYX_ALLOW_LARGE"
LEAST_BYTES = 2**28
"""That any file may unpack to, however small it is: what every machine has to spare."""
MOST_TIMES = 200
"""Times its own size that a file or an archive may unpack to. Logs with sparse features come to 20
to 60 times; deflate can reach 1,032 times, and does so for nothing but zeros."""
MOST_TIMES_STORED = 10_000
"""The same of vaults and checkpoints: their chunks are read one by one and compared with hashes,
and zstd makes masks that never change very small."""
CHUNK_BYTES = 2**30
"""Of one chunk of a stored array, which is decoded whole. Ours have 1 MiB, flashbax's a few."""
JSON_BYTES = 2**28
"""Of a JSON document. The longest are descriptions of vaults: about 1 MB for 10^9 rows."""
JSON_DEPTH = 100
"""Lists and objects within each other. Ours have 10; Python's own functions end at about 1,000."""
LINE_BYTES = 2**24
"""Of a line of JSON, one step of all agents or of one: parsed, it takes 20 times that."""
COLUMNS = 100_000
"""Of a table: a column for each feature of each agent."""
ARRAYS = 10_000
"""Named arrays in a file."""
HDF5_OBJECTS = 2_000_000
"""Groups and arrays in an HDF5 file: about ten for each episode of a Minari folder."""
MEMBERS = 100_000
"""Files in an archive: a vault of 10^9 rows has some thousand."""
MEMBER_DEPTH = 32
"""Folders within each other in an archive; a vault has 4."""
HEADER_BYTES = 2**16
"""Of a header of a tar archive beyond the fixed one: long names, which systems cut at 4,096."""
TEXT = 200
"""Letters of a name or of a message of a library that are shown."""
BOARD_CELLS = 2**20
"""Of an environment's board: the largest of the papers have 625. It is held for each of the many
environments that are stepped together."""
AGENTS = 1_000
"""Of an environment: the most in the papers are 50."""
EPISODE_STEPS = 10_000_000
"""Of an environment: the longest in the papers are some hundreds."""
ACTIONS = 1_000_000
"""Of an agent, or dimensions of its box: the most in the papers are some hundred."""
FEATURES = 100_000_000
"""Of an observation or a state: a picture of 5,000 x 5,000 pixels."""
AGENTS_LOGGED = 100_000
"""Of a log, each with a name."""


class LimitError(OryxError):
    """A file asks for more than it may; how to allow it is said."""


def are_lifted() -> bool:
    """Whether the user trusts the files."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def lift() -> None:
    """Allows everything from now on, in this process and those it starts."""
    os.environ[VARIABLE] = "1"


def require(what: str, asked: float, most: int, unit: str = "bytes") -> None:
    """Raises if something is larger than it may be."""
    if asked > most and not are_lifted():
        raise LimitError(
            f"{what} has {_tell(asked)} {unit}, more than the {most:,} that are allowed; if you "
            f"trust it, and there is memory for it, say --allow-large (from Python: {VARIABLE}=1)"
        )


def require_held(what: str, claimed: float, held: int, times: int = MOST_TIMES) -> None:
    """Raises if something claims far more bytes than the files it comes from can hold."""
    most = max(LEAST_BYTES, times * held)
    if claimed > most and not are_lifted():
        raise LimitError(
            f"{what} claims {_tell(claimed)} bytes, but only {held:,} are stored; if you trust it, "
            f"and there is memory for it, say --allow-large (from Python: {VARIABLE}=1)"
        )


def require_whole(environment: str, **settings: object) -> None:
    """Raises unless settings of an environment, which may come out of a file, are whole numbers."""
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise OryxError(f"{environment}: {name} must be a whole number, got {value!r:.100}")


def _tell(number: float) -> str:
    return f"{number:,.0f}" if number < 1e18 else f"{number:.1e}"
