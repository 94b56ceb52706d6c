"""`--config FILE`: a command's words from a TOML file, or from a run whose settings are used again.

Names in the file are those of the flags. `command` and words without a flag (`dataset`, `run`) may
stand in it too; what the command line says counts more.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oryx_marl import limits, texts
from oryx_marl.cli import commands, flags
from oryx_marl.cli.flags import Flag
from oryx_marl.errors import OryxError, UnknownNameError

OPTION = "--config"
PRINT = "--print-config"
COMMAND = "command"
ALONE = {
    "plugin": "plug-ins are code, so they are named on the command line: --plugin FILE",
    "allow_large": "say --allow-large on the command line",
    "debug": "say --debug on the command line",
    "config": "a file names no other file",
    "print_config": "say --print-config on the command line",
    "help": "say --help on the command line",
}
"""Flags of every command, which no file has, and what to do instead."""
MOST_BYTES = 2**15
"""Of a file: one with all flags of a command has about 2,000. Names of thousands of parts take time
that grows with the square of their number."""
RUN_CONFIG = "config.json"


class Settings(NamedTuple):
    """What a file says."""

    where: str
    """The file, for messages."""
    command: tuple[str, ...]
    values: dict[str, Any]
    """By name, with underscores."""
    names: dict[str, str]
    """As they are written in the file."""


def expand(words: Sequence[str]) -> list[str]:
    """The words with what the file of `--config` says before them, where they do not say it."""
    own, source = _take(words)
    if source is None:
        return own
    given = command_words(own)
    found = _read(source, given, own)
    command = _choose_command(given, found)
    commands.require_known(command)
    known = flags.find(commands.load(command))
    rest = own[len(given) :]
    values = _match(found, known, command)
    said = {word.split("=")[0][2:].replace("-", "_") for word in rest if word.startswith("--")}
    options = [
        word
        for flag in known.values()
        if flag.name in values and not flag.is_positional
        if not {flag.name, f"no_{flag.name}"} & said
        for word in flags.to_words(flag, values[flag.name], found.where)
    ]
    first, rest = _place(known, values, rest, found.where)
    return [*command, *first, *options, *rest]


def command_words(words: Sequence[str]) -> list[str]:
    """The words that name the command, such as `train oryx`; fewer if it is not named whole."""
    most = 2 if words and words[0] in commands.GROUPS else 1
    found: list[str] = []
    for word in words[:most]:
        if word.startswith("-"):
            break
        found.append(word)
    return found


def write(words: Sequence[str], command: Any) -> str:
    """The file that stands for a command."""
    named = command_words(words)
    if len(named) != (2 if named[:1] and named[0] in commands.GROUPS else 1):
        raise OryxError(f"{PRINT} needs a whole command, such as: {commands.TRAIN_EXAMPLE}")
    head = "# Repeat it with `oryx --config FILE`; flags on the command line count more.\n"
    return head + flags.to_toml({COMMAND: " ".join(named), **flags.values(command)})


def _take(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The words without `--config FILE`, wherever it stands, and the file."""
    rest, files, waiting = [], [], False
    for word in words:
        if waiting:
            files.append(word)
            waiting = False
        elif word == OPTION:
            waiting = True
        elif word.startswith(f"{OPTION}="):
            files.append(word.removeprefix(f"{OPTION}="))
        else:
            rest.append(word)
    if waiting or "" in files:
        raise OryxError(f"{OPTION} needs a TOML file, or the folder of a run")
    if len(files) > 1:
        raise OryxError(f"give {OPTION} once, not {len(files)} times")
    return rest, Path(files[0]) if files else None


def _read(source: Path, given: Sequence[str], words: Sequence[str]) -> Settings:
    """What a file says, or how a run was made."""
    if source.name == RUN_CONFIG:
        source = source.parent
    if source.is_dir():
        return _read_run(source, given, words)
    if not source.is_file():
        raise UnknownNameError(f"there is no file {source} to take settings from")
    limits.require(str(source), source.stat().st_size, MOST_BYTES)
    try:
        found = tomllib.loads(source.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise OryxError(f"{source} is nested too deep to be read") from error
    except ValueError as error:  # not UTF-8, not TOML, or a number with thousands of digits
        raise OryxError(f"{source} is not TOML: {texts.first_line(error)}") from error
    names: dict[str, str] = {}
    for name in found:
        plain = name.replace("-", "_")
        if plain in names:
            raise OryxError(f"{source} gives '{texts.shorten(name)}' twice")
        names[plain] = name
    values = {plain: found[name] for plain, name in names.items()}
    named = values.pop(COMMAND, "")
    if not isinstance(named, str):
        raise OryxError(f'{source}: command must be a text such as "train oryx"')
    return Settings(str(source), tuple(named.split()), values, names)


def _read_run(folder: Path, given: Sequence[str], words: Sequence[str]) -> Settings:
    """The settings of a run; only `oryx train` can use them."""
    if [*given[:1]] not in ([], ["train"]):
        raise OryxError(
            f"{folder} is a run, whose settings are those of `oryx train`, not of `oryx {given[0]}`"
        )
    if any(word.split("=")[0] == "--resume" for word in words):
        raise OryxError(
            f"a run that is continued has its settings: say `oryx train --resume {folder}`, or "
            f"leave --resume out to begin another run with the settings of {folder}"
        )
    from oryx_marl.cli import again  # which needs JAX

    has_env = any(word.split("=")[0] == "--env" for word in words)
    name, values = again.read(folder, has_env)
    return Settings(str(folder), ("train", name), values, {each: each for each in values})


def _choose_command(given: Sequence[str], found: Settings) -> list[str]:
    """The command line's, completed by the file's."""
    named = [*found.command]
    if not given and not named:
        raise OryxError(f'{found.where} names no command; add one: command = "train oryx"')
    if odd := [word for word in named if word.startswith("-")]:
        raise OryxError(f"{found.where}: the command has a flag, {odd[0]!r}; give it its own line")
    if len(named) > len(command_words(named)):
        raise OryxError(
            f"{found.where}: the command is `{' '.join(named[:3])}`, but it names a command alone, "
            'such as "train oryx"; a dataset or a run has a line of its own'
        )
    if len(given) == 1 and given[0] in commands.GROUPS and named:
        if named[:1] != [*given]:
            raise OryxError(f"{found.where} is for `oryx {' '.join(named)}`, not `oryx {given[0]}`")
        return named
    return [*given] or named


def _match(found: Settings, known: Mapping[str, Flag], command: Sequence[str]) -> dict[str, Any]:
    """The values by the names of the command's flags; others are refused."""
    fields = {flag.field: flag.name for flag in known.values()}
    values: dict[str, Any] = {}
    for plain, value in found.values.items():
        name, written = fields.get(plain, plain), texts.shorten(found.names[plain])
        if name not in known:
            hint = ALONE.get(plain)
            if hint is None:
                close = difflib.get_close_matches(plain, [*known, COMMAND], 1, cutoff=0.6)
                hint = f"did you mean {close[0]}?" if close else f"see oryx {' '.join(command)} -h"
            raise OryxError(
                f"{found.where}: `oryx {' '.join(command)}` has no flag '{written}'; {hint}"
            )
        if name in values:
            raise OryxError(f"{found.where} gives {name} twice, as '{written}' too")
        values[name] = value
    return values


def _place(
    known: Mapping[str, Flag], values: Mapping[str, Any], rest: Sequence[str], where: str
) -> tuple[list[str], list[str]]:
    """Words without a flag, of the command line or else of the file, and all others."""
    wanted = [flag for flag in known.values() if flag.is_positional]
    if not {flag.name for flag in wanted} & {*values}:
        return [], [*rest]
    own, others = _split(known, rest)
    found = [
        word
        for place, flag in enumerate(wanted)
        if flag.name in values and place >= len(own)
        for word in flags.to_words(flag, values[flag.name], where)
    ]
    return [*own, *found], others


def _split(known: Mapping[str, Flag], words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words that belong to no flag, and the others."""
    own: list[str] = []
    others: list[str] = []
    left = 0.0  # values that the flag before may still take
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flag = known.get(name.replace("-", "_"))
            takes = 0.0 if flag is None or flag.is_switch or value else 1.0
            left = float("inf") if flag is not None and flag.is_list and takes else takes
            others.append(word)
        elif left:
            left -= 1
            others.append(word)
        else:
            (others if word == "-h" else own).append(word)
    return own, others
