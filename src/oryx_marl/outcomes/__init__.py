"""What is found out about trained weights: scores, held-out likelihood; one file each."""
