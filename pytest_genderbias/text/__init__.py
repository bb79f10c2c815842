"""Words and templates: YAML with line numbers, word lists, indefinite articles, and sentences with slots.

In: YAML files and template texts. Out: checked word lists and parsed templates. Every other room may import this one, which
imports none of them but ``errors``.
"""
