"""The stored results of the papers' small runs: JSON files, shown by ``genderbias paper``."""
