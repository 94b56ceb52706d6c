"""Recorders: steps become whole episodes."""
