"""What was logged: datasets, their files, checks, statistics and windows of them."""
