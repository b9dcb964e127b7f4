"""Floor 0: argument checks, masked reductions, registries, error types; imports nothing of ours."""
