"""What `oryx` starts: the command line, which Ctrl-C ends from its first moment on."""

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Loads the command line, which takes seconds, and runs it."""
    # Some packages swallow a KeyboardInterrupt while they are imported.
    before = signal.signal(signal.SIGINT, _leave)
    from oryx_marl.cli import main as cli

    signal.signal(signal.SIGINT, before)
    cli.main()


def _leave(number: int, frame: Any) -> None:
    sys.stderr.write("stopped before anything was begun\n")
    sys.stderr.flush()
    os._exit(130)


if __name__ == "__main__":
    main()
