"""Scans of updates over seeds, checkpoints and logs."""
