"""Datasets that can be made: one file per family of environments, named in its `RECIPES`."""
