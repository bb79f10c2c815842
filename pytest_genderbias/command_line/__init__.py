"""The command ``genderbias``, and ``python -m pytest_genderbias``.

In: arguments. Out: what a command prints, and its exit status. Measuring commands call pytest with the flags of the
plugin; the others call what the plugin calls, or a command of another room (``main``). Only ``__main__`` imports this
package.
"""
