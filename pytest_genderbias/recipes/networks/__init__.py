"""Networks of this package as ordinary transformers classes: those of the papers' mitigations that transformers does
not have.

Recipes build and train them, and loading registers them by their ``model_type`` (``models/config.py``). The modules
import torch, so import them inside functions.
"""
