"""Words and templates: located YAML, word lists, articles, sentences with slots."""
