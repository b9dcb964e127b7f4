"""Benchmarks: `python -m jaxgrpo.bench NAME [--json FILE]`, each figure with the machine's own."""
