"""The packaged word lists: YAML files, read with :func:`pytest_genderbias.load_wordlist`."""
