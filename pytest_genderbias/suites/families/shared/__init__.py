"""Options, data and records that several families share."""
