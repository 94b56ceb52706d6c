"""The command line: `oryx demo | train | eval | data | bench | report`."""

import os
import sys
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import tyro
from tyro.extras import SubcommandApp

import oryx_marl
from oryx_marl import registry, renamed
from oryx_marl.cli import bench as cli_bench
from oryx_marl.cli import data as cli_data
from oryx_marl.cli import train as cli_train
from oryx_marl.cli.console import errors
from oryx_marl.cli.demo import Demo
from oryx_marl.cli.evaluate import Eval
from oryx_marl.cli.report import Report
from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.training.loop import StoppedError

FLAGS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
"""Flags are called as the settings are, without the name of the group they belong to."""
PLUGIN = "--plugin"
DESCRIPTION = (
    "Learn coordinated multi-agent policies from logged data. With any command, --plugin FILE adds "
    "the algorithm, environment, data source or recipes of a Python file; it can be repeated."
)
_format_other = warnings.formatwarning
INTERRUPTED = (
    "stopped; what was saved is kept: go on with the same command, `train` and `data make` with "
    "--resume"
)


def _app(asked: Collection[str] = ()) -> SubcommandApp:
    """Every command by name; algorithms are found on disk, and in plug-ins.

    Of installed plug-ins only those that are named in `asked` are imported.
    """
    train, data, bench, app = (SubcommandApp() for _ in range(4))
    for name, command in cli_train.commands(asked).items():
        train.command(name=name)(command)
    for name, command in cli_data.COMMANDS.items():
        data.command(name=name)(command)
    app.command(name="demo")(Demo)
    app.command(train, name="train", help="Train an algorithm on a dataset.")
    app.command(name="eval")(Eval)
    app.command(data, name="data", help="List, describe, check, make and download datasets.")
    for name, command in cli_bench.commands().items():
        bench.command(name=name)(command)
    app.command(bench, name="bench", help="Run the paper's experiments; print published scores.")
    app.command(name="report")(Report)
    return app


def _take_plugins(arguments: list[str]) -> tuple[list[str], list[Path]]:
    """The arguments without `--plugin FILE`, wherever it stands, and the files.

    They are taken out before anything else is read: a file may add a command.
    """
    words, files, waiting = [], [], False
    for word in arguments:
        if waiting:
            files.append(Path(word))
            waiting = False
        elif word == PLUGIN:
            waiting = True
        elif word.startswith(f"{PLUGIN}="):
            files.append(Path(word.removeprefix(f"{PLUGIN}=")))
        else:
            words.append(word)
    if waiting:
        raise OryxError(f"{PLUGIN} needs a file, such as {PLUGIN} my_env.py")
    return words, files


def _rename_flags(arguments: list[str]) -> list[str]:
    """Flags of version 0.1.0 as they are called now, with a hint for each."""
    words, changed = renamed.flags(arguments, online="sable" in arguments)
    for old, new in changed.items():
        errors.print(f"hint: {old} is called {new} now; the old name goes with the next release")
    return words


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Warnings for people without the place in the code; all others as ever."""
    if issubclass(category, OryxWarning):
        return f"warning: {message}\n"
    return _format_other(message, category, filename, lineno, line)


def _hush(problem: Any) -> None:
    """Orbax leaves futures behind when a read or write fails; its error itself reaches us."""
    if "Event loop is closed" not in str(problem.exc_value):
        sys.__unraisablehook__(problem)


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; errors for people end with one message and a non-zero exit code."""
    sys.unraisablehook = _hush
    warnings.formatwarning = _format_warning
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        print(oryx_marl.__version__)  # noqa: T201
        return
    code = 2  # what is refused while the command is read was asked for wrongly
    try:
        words, files = _take_plugins(_rename_flags(given))
        for file in files:
            registry.add_file(file)
        command = _app(words).cli(prog="oryx", description=DESCRIPTION, args=words, config=FLAGS)
        code = 1
        command.run()
    except StoppedError as stop:
        errors.print(str(stop), highlight=False)
        sys.exit(130)
    except KeyboardInterrupt:
        errors.print(INTERRUPTED, highlight=False, soft_wrap=True)
        _leave(130)
    except BrokenPipeError:  # who reads has read enough; nothing more is to be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (OryxError, OSError) as error:
        errors.print("error:", style="bold red", end=" ")
        errors.print(str(error), highlight=False, markup=False, soft_wrap=True)
        sys.exit(code)


def _leave(code: int) -> None:
    """Ends the process at once: torn down after an interrupted compilation, JAX crashes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
