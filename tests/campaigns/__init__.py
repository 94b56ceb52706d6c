"""Campaigns that try to lose a run, a dataset or a process: `python -m tests.campaigns --help`."""
