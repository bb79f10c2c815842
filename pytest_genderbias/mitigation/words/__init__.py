"""Words for mitigation methods: pairs, names, grammar, matching in texts, and directions in vector spaces.

The modules take word lists, texts, and models with vectors, and return pairs, spans and bases. ``mitigation.methods``
calls them, and users may call them directly.
"""
