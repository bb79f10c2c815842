"""Reports: the table and the JSON file. They print and never decide."""
