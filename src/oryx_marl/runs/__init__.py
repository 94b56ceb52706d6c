"""The run folder: one class writes and reads each document; checkpoints."""
