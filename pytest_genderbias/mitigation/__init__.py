"""Mitigations, each usable alone: what they change, what they keep, and the control they are held against."""
