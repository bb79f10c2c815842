"""Reports: the tables and the JSON file of a run. They take measurements, judgements and comparisons, print them, and decide nothing."""
