"""Texts and files: YAML with line numbers, the schema of typed input, word lists, templates, numbers and tables.

In: files, typed input and template texts. Out: checked values, word lists, parsed templates and texts to print. The
package imports only ``errors`` and ``escaping``.
"""
