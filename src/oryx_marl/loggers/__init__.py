"""What is told of a training while it goes on: callbacks, and loggers for dashboards."""
