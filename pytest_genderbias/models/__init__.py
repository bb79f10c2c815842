"""Models under test: specs, roles, checkpoints, and the protocols for objects of the user's own."""
