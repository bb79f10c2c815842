"""The harness: runs of mitigations, and verdicts on them."""
