"""What every test runs under: eight CPU devices, and no silent broadcasting between ranks."""

import os

import hypothesis
import jax

# JAX_PLATFORMS=cuda runs the same tests on an accelerator.
if "JAX_PLATFORMS" not in os.environ:
    jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling takes longer than a deadline allows, and a failure must be the same on every machine.
hypothesis.settings.register_profile("jaxgrpo", deadline=None, derandomize=True)
hypothesis.settings.load_profile("jaxgrpo")
