"""What a trained policy is, on disk and in plain Python."""
