"""Off-policy evaluation: what a policy is worth, from logs alone."""
