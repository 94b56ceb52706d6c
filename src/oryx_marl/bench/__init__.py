"""Comparisons: statistics over seeds and tasks, published numbers, tables."""
