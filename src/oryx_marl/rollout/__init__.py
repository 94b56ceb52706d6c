"""Policies in environments."""
