"""Floor 0: argument checks, masked reductions, registries and error types; imports nothing of ours."""
