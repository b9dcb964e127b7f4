"""The command line, one module a verb; the only room that prints."""
