"""Parsers of logbooks that people keep as prose: markdown with dated headings, in English or Chinese."""
