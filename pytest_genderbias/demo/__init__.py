"""Three tiny checkpoints with bias planted on purpose; README.md says what and how strongly."""
