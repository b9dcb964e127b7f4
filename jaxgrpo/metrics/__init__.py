"""Metrics that add up over micro-batches and hosts (`mean`), and their files (`writer`)."""
