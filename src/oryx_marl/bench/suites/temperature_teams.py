"""One temperature for every dataset against six fixed ones, on tasks with 5 to 23 agents."""

from dataclasses import replace

from oryx_marl.bench.suites import temperature

SUITE = replace(
    temperature.SUITE,
    name="temperature_teams",
    datasets=(
        "con-10x10x10a/snapshots",
        "smacv2_5_units/snapshots",
        "con-15x15x23a/snapshots",
    ),
    seeds=3,
    tune_on="con-10x10x10a/snapshots",
)
