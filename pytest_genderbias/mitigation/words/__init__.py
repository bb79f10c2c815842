"""Words for mitigation methods: pairs, names, grammar, matching in texts, and directions in vector spaces.

In come word lists, texts, and models whose vectors are read; out come pairs, spans and bases. ``mitigation.methods`` calls these
modules, and users may call them directly.
"""
