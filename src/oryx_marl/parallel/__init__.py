"""Seeds and devices."""
