"""Completion in the shells themselves, which are typed into."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from oryx_marl.cli import commands
from oryx_marl.cli import main as cli

READY = "@ready@"
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
TYPED = {
    "oryx tra": "oryx train ",
    "oryx data subs": "oryx data subsample ",
    "oryx train ory": "oryx train oryx ",
    "oryx train oryx tmaze/planner-ex": "oryx train oryx tmaze/planner-expert ",
    "oryx train oryx --continue-on-d": "oryx train oryx --continue-on-divergence ",
    "oryx train sable --gae": "oryx train sable --gae-lambda ",
    "oryx eval runs/mine --which be": "oryx eval runs/mine --which best ",
    "oryx eval runs": "oryx eval runs/",
    "oryx replay runs/mine --m": "oryx replay runs/mine --mp4 ",
    "oryx train oryx --log tens": "oryx train oryx --log tensorboard ",
    "oryx completion zs": "oryx completion zsh ",
    "oryx demo --config se": "oryx demo --config settings.toml ",
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts of all shells, and a few files to be completed."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in (*START, "fish"):
        with pytest.MonkeyPatch.context() as patch, (folder / f"script.{shell}").open("w") as file:
            patch.setattr("sys.stdout", file)
            cli.main(["completion", shell])
    (folder / "typed" / "runs" / "mine").mkdir(parents=True)
    (folder / "typed" / "settings.toml").touch()
    return folder


def test_every_command_is_completed_in_bash(scripts: Path) -> None:
    """All flags of all commands, asked for in one process."""
    asked = [" ".join(words) for words in commands.list_all()]
    lines = "\n".join(
        f"COMP_WORDS=(oryx {each} --) COMP_CWORD={len(each.split()) + 1} && _oryx; "
        'echo "${COMPREPLY[@]}"'
        for each in asked
    )
    done = subprocess.run(
        ["bash", "-c", f"source {scripts}/script.bash\n{lines}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.stderr
    for command, line in zip(asked, done.stdout.splitlines(), strict=True):
        options = {*line.split()}
        assert {"--config", "--plugin", "--help"} <= options, command
        if command.startswith("train"):
            assert {"--learning-rate", "--resume", "--no-resume", "--out"} <= options, command


class Terminal:
    """A shell that is typed into."""

    def __init__(self, shell: str, folder: Path) -> None:
        self._handle, theirs = pty.openpty()
        environment = {"TERM": "dumb", "PS1": "$ ", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
        self._process = subprocess.Popen(
            START[shell],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def read_until(self, mark: str, seconds: float = 20) -> str:
        """What is shown until the mark, or until time is up."""
        shown, end = "", time.monotonic() + seconds
        while mark not in shown and time.monotonic() < end:
            if select.select([self._handle], [], [], 0.1)[0]:
                shown += os.read(self._handle, 65536).decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07|\r", "", shown)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._handle)


@pytest.mark.parametrize("shell", START)
def test_what_is_typed_is_completed(shell: str, scripts: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    terminal = Terminal(shell, scripts / "typed")
    try:
        mark = f"{READY[:3]}''{READY[3:]}"  # which is not what is typed
        terminal.type(f'source ../script.{shell}; oryx() {{ echo "<$*>"; }}; echo {mark}\n')
        assert READY in terminal.read_until(READY)
        for typed, wanted in TYPED.items():
            begun = time.monotonic()
            terminal.type(f"{typed}\t.\n")  # the dot shows where the completed word ends
            shown = terminal.read_until(".>")
            assert f"<{wanted.removeprefix('oryx ')}.>" in shown, typed
            assert time.monotonic() - begun < 2
    finally:
        terminal.close()


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_is_asked_what_it_would_complete(scripts: Path) -> None:
    asked = "; ".join(f"complete -C '{typed}'; echo ''" for typed in TYPED)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source ../script.fish; {asked}"],
        cwd=scripts / "typed",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.stderr
    for wanted, found in zip(TYPED.values(), done.stdout.split("\n\n"), strict=False):
        offered = [line.split("\t")[0] for line in found.splitlines()]
        assert offered == [wanted.split()[-1]]
