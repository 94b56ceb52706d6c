"""Between our environments and those of others."""
