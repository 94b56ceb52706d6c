"""Learn coordinated multi-agent policies from logged data: Oryx on JAX."""

__version__ = "0.1.0"
