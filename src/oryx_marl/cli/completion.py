"""The command `oryx completion`: a script that completes commands, flags and values in a shell.

It is written once, with all names in it: JAX takes seconds to import, too long for a key press.
"""

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import tyro

from oryx_marl import recipes, registry
from oryx_marl.cli import commands, flags
from oryx_marl.cli.flags import Flag

Shell = Literal["bash", "zsh", "fish"]
EVERYWHERE = ("--config", "--plugin", "--print-config", "--allow-large", "--debug", "--help")
"""Flags of all commands; a file follows the first two."""
DATASETS, FILES = "datasets", "files"


class Choice(NamedTuple):
    """A flag, or a word without one, and what may follow."""

    option: str
    """Empty of a word without a flag."""
    takes: str
    """Values in a row, or one of the constants above; empty where nobody knows."""
    is_switch: bool = False


@dataclass(frozen=True)
class Completion:
    """Print a script that lets a shell complete commands, flags and values."""

    shell: Annotated[Shell, tyro.conf.Positional, tyro.conf.arg(metavar="SHELL")]
    """bash, zsh or fish."""

    def run(self) -> None:
        write = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}[self.shell]
        print(write(dict(find_all())), end="")  # noqa: T201


Tree = dict[tuple[str, ...], list[Choice]]
"""What each command takes, by its words."""


def find_all() -> Iterator[tuple[tuple[str, ...], list[Choice]]]:
    """All commands and what they take."""
    for words in commands.list_all():
        found = flags.find(commands.load(words)).values()
        yield words, [Choice(_option(flag), _takes(flag), flag.is_switch) for flag in found]


def _option(flag: Flag) -> str:
    return "" if flag.is_positional else flag.option


def _takes(flag: Flag) -> str:
    """What may follow."""
    if flag.name in ("dataset", "data"):
        return DATASETS
    if flag.is_positional and flag.name == "run":
        return FILES
    values = [*_literals(flag.kind)]
    if flag.name == "env":
        values = registry.names("envs")
    if flag.name == "algorithms":
        values = registry.names("algorithms")
    return " ".join(values) or (FILES if Path in _kinds(flag.kind) else "")


def _kinds(kind: typing.Any) -> list[typing.Any]:
    inner = [each for each in typing.get_args(kind) if each is not type(None)]
    return [kind, *(found for each in inner for found in _kinds(each))]


def _literals(kind: typing.Any) -> list[str]:
    """The texts that a type allows."""
    found = [each for each in _kinds(kind) if typing.get_origin(each) is Literal]
    return [str(value) for each in found for value in typing.get_args(each)]


def write_bash(tree: Tree) -> str:
    """For bash."""
    everywhere, alone = " ".join(EVERYWHERE), " ".join(EVERYWHERE[2:])
    return f"""# Completes `oryx` in bash; written by `oryx completion bash`.
_oryx() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    local path="${{COMP_WORDS[1]}}" flags="" switches="" takes="" members=""
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        members="{" ".join(commands.ORDER)} --version {everywhere}"
        COMPREPLY=($(compgen -W "$members" -- "$cur"))
        return
    fi
    case "$path" in
{_bash_groups(tree)}
    esac
    if [[ -n "$members" ]]; then
        if (( COMP_CWORD == 2 )); then
            COMPREPLY=($(compgen -W "$members {everywhere}" -- "$cur"))
            return
        fi
        path="$path ${{COMP_WORDS[2]}}"
    fi
    case "$path" in
{_bash_commands(tree)}
    esac
    if [[ "$cur" == -* ]]; then
        COMPREPLY=($(compgen -W "$flags $switches {everywhere}" -- "$cur"))
        return
    fi
    if [[ "$prev" == --* && " $switches {alone} " != *" $prev "* ]]; then
        takes=""
        case "$path $prev" in
            *" --config"|*" --plugin") takes="{FILES}" ;;
{_bash_values(tree)}
        esac
    fi
    case "$takes" in
        {FILES}) ;;
        {DATASETS}) COMPREPLY=($(compgen -W "{_datasets()}" -- "$cur")) ;;
        "") type compopt >/dev/null 2>&1 && compopt +o default ;;
        *) COMPREPLY=($(compgen -W "$takes" -- "$cur")) ;;
    esac
}}
complete -o default -F _oryx oryx
"""


def write_zsh(tree: Tree) -> str:
    """For zsh, which knows bash's way of completing."""
    script = write_bash(tree).split("\n", 1)[1]
    return f"""# Completes `oryx` in zsh; written by `oryx completion zsh`.
(( $+functions[compdef] )) || {{ autoload -U +X compinit && compinit }}
autoload -U +X bashcompinit && bashcompinit
{script}"""


def _bash_groups(tree: Tree) -> str:
    lines = [
        f'        {group}) members="{" ".join(_members(tree, group))}" ;;'
        for group in commands.GROUPS
    ]
    return "\n".join(lines)


def _bash_commands(tree: Tree) -> str:
    lines = []
    for words, choices in tree.items():
        options = " ".join(each.option for each in choices if each.option and not each.is_switch)
        switches = " ".join(_switches(choices))
        first = next((each.takes for each in choices if not each.option), "")
        lines.append(
            f'        "{" ".join(words)}") flags="{options}" switches="{switches}" '
            f'takes="{first}" ;;'
        )
    return "\n".join(lines)


def _bash_values(tree: Tree) -> str:
    """Flags by what follows them."""
    found: dict[str, list[str]] = {}
    for words, choices in tree.items():
        for each in choices:
            if each.option and each.takes:
                found.setdefault(each.takes, []).append(f'"{" ".join(words)} {each.option}"')
    lines = [f'            {"|".join(paths)}) takes="{takes}" ;;' for takes, paths in found.items()]
    return "\n".join(lines)


def _members(tree: Tree, group: str) -> list[str]:
    return [words[1] for words in tree if words[0] == group and len(words) > 1]


def _switches(choices: Sequence[Choice]) -> list[str]:
    """Both ways to say each."""
    found = [each.option for each in choices if each.is_switch]
    return [way for option in found for way in (option, option.replace("--", "--no-", 1))]


def _datasets() -> str:
    return " ".join(entry.name for entry in recipes.names())


FISH = """# Completes `oryx` in fish; written by `oryx completion fish`.
function __oryx_path
    set -l words (commandline -opc)
    set -l path $words[2]
    if contains -- "$path" GROUPS
        set path "$path $words[3]"
    end
    string trim -- "$path"
end
function __oryx_is
    test (__oryx_path) = "$argv"
end
complete -c oryx -f
"""


def write_fish(tree: Tree) -> str:
    """For fish."""
    lines = [FISH.replace("GROUPS", " ".join(commands.GROUPS)).rstrip()]
    lines += [f"complete -c oryx -n '__oryx_is \"\"' -a '{' '.join(commands.ORDER)}'"]
    lines += ["complete -c oryx -n '__oryx_is \"\"' -l version"]
    for group in commands.GROUPS:
        members = " ".join(_members(tree, group))
        lines.append(f"complete -c oryx -n '__oryx_is {group}' -a '{members}'")
    for option in EVERYWHERE:
        follows = " -rF" if option in EVERYWHERE[:2] else ""
        lines.append(f"complete -c oryx -l {option[2:]}{follows}")
    for words, choices in tree.items():
        here = f"complete -c oryx -n '__oryx_is {' '.join(words)}'"
        lines += [f"{here} -l {switch[2:]}" for switch in _switches(choices)]
        lines += [f"{here}{_fish_one(each)}" for each in choices if not each.is_switch]
    return "\n".join(lines) + "\n"


def _fish_one(choice: Choice) -> str:
    option = f" -l {choice.option[2:]}" if choice.option else ""
    if choice.takes in (FILES, ""):
        follows = {FILES: "-rF" if option else "-F", "": "-x"}[choice.takes]
        return f"{option} {follows}"
    values = _datasets() if choice.takes == DATASETS else choice.takes
    return f"{option} -xa '{values}'"
