"""The maths: pure functions without parameters."""
