"""Word pairs, grammar and directions that methods use."""
