"""What is wrong with logged data, and its repair."""
