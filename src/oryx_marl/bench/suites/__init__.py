"""The experiments of the paper, one file per suite."""
