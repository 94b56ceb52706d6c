"""Loss, update and policy of each algorithm, one file each."""
