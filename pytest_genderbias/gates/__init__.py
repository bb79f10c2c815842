"""Gates: limits and baselines judge a measurement. They decide and explain; they never print."""
