"""Where logs come from: one file per family of environments."""
