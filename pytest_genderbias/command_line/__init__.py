"""The command ``genderbias``, and ``python -m pytest_genderbias``.

In come arguments, out go what a command prints and its exit status. Measuring commands call pytest with the flags of
the plugin; the others call what the plugin calls. No other room imports this one.
"""
