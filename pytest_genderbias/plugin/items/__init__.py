"""The pytest items that measure and judge."""
