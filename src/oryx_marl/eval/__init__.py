"""Roll-outs and scores."""
