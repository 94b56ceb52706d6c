"""What `oryx data check` looks for: one file per idea, each with a `make(view)`."""
