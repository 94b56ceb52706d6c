"""Logs from elsewhere, one kind per file; the file name is the kind's name."""
