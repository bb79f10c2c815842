"""Words and templates: YAML with line numbers, word lists, indefinite articles, sentences with slots, and escaping for
output.

In: YAML files and template texts. Out: checked word lists, parsed templates and texts that are safe to print. Every
other room may import this one, which imports only ``errors``.
"""
