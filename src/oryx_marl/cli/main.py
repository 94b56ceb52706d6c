"""The command line: `oryx demo | train | eval | trust | tune | data | bench | report | replay |
export`."""

import io
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import oryx_marl
from oryx_marl import limits, registry, renamed, texts
from oryx_marl.cli import config_file
from oryx_marl.cli.commands import make_app, require_known
from oryx_marl.cli.console import FLAGS, OPTIONAL, errors
from oryx_marl.errors import OryxError, OryxWarning, StoppedError, UnknownNameError

PLUGIN = "--plugin"
ALLOW_LARGE = "--allow-large"
DEBUG = "--debug"
UNEXPECTED = 70
"""Exit code of an error that is the program's own: EX_SOFTWARE of sysexits.h."""
NO_MEMORY = (
    "there is not enough memory. Give smaller settings (batch_size, seeds, envs), close other "
    "programs, or use a machine with more; what was saved is kept"
)
DESCRIPTION = (
    "Learn coordinated multi-agent policies from logged data. With any command, --plugin FILE adds "
    "the algorithm, environment, data source or recipes of a Python file; it can be repeated. "
    "--config FILE takes flags from a TOML file, or from a run's folder, and --print-config writes "
    "such a file. "
    "--allow-large lifts the limits on what files may ask for, --debug shows the stack of an "
    "unexpected error. Exit codes: 1 it failed, 2 asked for wrongly, 70 an error of the program, "
    "130 stopped."
)
_format_other = warnings.formatwarning
INTERRUPTED = (
    "stopped; what was saved is kept: continue a training with `oryx train --resume RUN`, "
    "`data make` with --resume, anything else with the same command"
)


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
        return f"warning: {texts.plain(str(message))}\n"
    return _format_other(message, category, filename, lineno, line)


def _hush(problem: Any) -> None:
    """Orbax leaves futures behind when a read or write fails; its error itself reaches us."""
    if "Event loop is closed" not in str(problem.exc_value):
        sys.__unraisablehook__(problem)


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; errors for people end with one message and a non-zero exit code."""
    sys.unraisablehook = _hush
    warnings.formatwarning = _format_warning
    _write_any_letter()
    given = sys.argv[1:] if arguments is None else arguments
    is_debugged = DEBUG in given
    if ALLOW_LARGE in given:
        limits.lift()
    is_printed = config_file.PRINT in given
    given = [word for word in given if word not in (DEBUG, ALLOW_LARGE, config_file.PRINT)]
    if given == ["--version"]:
        print(oryx_marl.__version__)  # noqa: T201
        return
    code = 2  # what is refused while the command is read was asked for wrongly
    try:
        words, files = _take_plugins(_rename_flags(given))
        for file in files:
            registry.add_file(file)
        words = config_file.expand(words)
        command = read(words)
        if is_printed:
            print(config_file.write(words, command), end="")  # noqa: T201
            return
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
        _tell_error(str(error))
        sys.exit(2 if isinstance(error, UnknownNameError) else code)
    except MemoryError:
        if is_debugged:
            raise
        _tell_error(NO_MEMORY)
        sys.exit(1)
    except Exception as error:
        if is_debugged:
            raise
        _tell_error(_explain_unexpected(error))
        sys.exit(UNEXPECTED)


def _tell_error(message: str) -> None:
    errors.print("error:", style="bold red", end=" ")
    errors.print(message, highlight=False, soft_wrap=True)


def _explain_unexpected(error: Exception) -> str:
    """One sentence; the stack, which whoever repairs it needs, is put into a file."""
    what = f"{type(error).__name__}: {texts.first_line(error)}"
    stack = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="oryx-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"oryx-marl {oryx_marl.__version__}\n{stack}")
    except OSError:
        return f"something unexpected happened ({what}); say {DEBUG} to see where"
    return (
        f"something unexpected happened ({what}). What was saved is kept. Where it happened is "
        f"written in {path}; please report it with that file"
    )


def _write_any_letter() -> None:
    """Streams that cannot write a letter, such as those of ASCII, write its number instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def read(words: list[str]) -> Any:
    """The command that the words ask for, with its settings."""
    words = config_file.expand(words)
    if words[:1] == ["train"] and any(word.startswith("--resume") for word in words):
        from oryx_marl.cli import resume

        if resume.is_asked(words):
            return resume.read(words, _read_plainly)
    return _read_plainly(words)


def _read_plainly(words: list[str]) -> Any:
    if any(word.startswith("--tyro-") for word in words):
        raise OryxError("say `oryx completion bash`, zsh or fish; --tyro- flags know no commands")
    require_known(words)
    app = make_app(words)
    return app.cli(
        prog="oryx", description=DESCRIPTION, args=words, config=FLAGS, registry=OPTIONAL
    )


def _leave(code: int) -> None:
    """Ends the process at once: torn down after an interrupted compilation, JAX crashes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
