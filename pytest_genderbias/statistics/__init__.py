"""Pure functions from arrays to figures, with the papers' definitions as defaults. They know neither pytest nor models."""
