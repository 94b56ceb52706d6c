"""Connector on recordings of trainings that were made here, which is the paper's way."""

from oryx_marl.bench.suites import connector

SUITE = connector.make("connector_replay", "replay")
