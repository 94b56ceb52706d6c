"""Where the code comes from, to be kept beside what it has made."""

import os
import subprocess
from pathlib import Path


def find_commit() -> str | None:
    """The commit of this package's source, marked if it was changed since; None if unknown.

    Where the source was copied without its history, $ORYX_COMMIT can tell.
    """
    if told := os.environ.get("ORYX_COMMIT"):
        return told
    git = ["git", "-C", str(Path(__file__).parent)]
    tracked = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
    commit = [*git, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        subprocess.run(tracked, check=True, capture_output=True, timeout=10)
        result = subprocess.run(commit, check=True, capture_output=True, timeout=10, text=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
