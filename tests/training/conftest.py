import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.aggregation import row_weights
from jaxgrpo.losses.config import LossConfig, PenaltyConfig, make_objective
from jaxgrpo.models import DecoderConfig, abstract_params
from jaxgrpo.sharding import MeshConfig, batch_sharding, build_mesh
from jaxgrpo.training import Batch, TrainState, make_loss, make_update_step

MODEL = DecoderConfig(
    vocabulary_size=20, layers=2, hidden_size=16, heads=4, kv_heads=2, head_size=4, mlp_size=24
)
TEMPERATURE = 1.3
ROWS, WIDTH, LENGTH = 16, 4, 6
END = 1  # the stop token, and what pads
LENGTHS = np.array([6, 1, 3, 0, 6, 4, 2, 5, 6, 6, 1, 2, 3, 0, 4, 5], np.int32)
ALL_MASKED = 5


def make_batch(aggregation="token_mean", dtype=np.float32, **options):
    """Sixteen rows, four to a prompt: everything that a rollout can do to a mask.

    Row 0 ends in the last slot, 1 is the stop token alone, 2 ends early, 3 is empty, 4 never ends,
    5 is left out of training; the rest are like them.
    """
    random = np.random.default_rng(0)
    tokens = random.integers(2, 20, (ROWS, LENGTH)).astype(np.int32)
    ended = np.delete(np.arange(ROWS), [3, 4, 8, 13])
    tokens[ended, LENGTHS[ended] - 1] = END
    inside = np.arange(LENGTH)[None] < LENGTHS[:, None]
    trainable = inside.copy()
    trainable[ALL_MASKED] = False
    trainable[7, 1:3] = False  # tokens of a tool, say
    group_ids = np.repeat([2, 0, 3, 1], 4).astype(np.int32)
    advantages = random.normal(size=ROWS)
    advantages[12:] = 0  # a group whose rewards are equal
    behaviour = -3 + 0.7 * random.normal(size=(ROWS, LENGTH))
    floats = {
        "behaviour_log_probs": behaviour,
        "anchor_log_probs": behaviour + 0.1 * random.normal(size=behaviour.shape),
        "reference_log_probs": -3 + 0.7 * random.normal(size=behaviour.shape),
        "advantages": advantages,
        "row_weights": row_weights(aggregation, trainable, group_ids=group_ids, **options),
    }
    return Batch(
        prompt_tokens=random.integers(0, 20, (ROWS, WIDTH)).astype(np.int32),
        prompt_lengths=random.integers(1, WIDTH + 1, ROWS).astype(np.int32),
        completion_tokens=np.where(inside, tokens, END),
        completion_lengths=LENGTHS,
        trainable=trainable,
        group_ids=group_ids,
        **{name: np.asarray(value, dtype) for name, value in floats.items()},
    )


def mesh_of(data=1, fsdp=1, model=1):
    devices = jax.devices()[: data * fsdp * model]
    return build_mesh(MeshConfig(data=data, fsdp=fsdp, model=model), devices)


def placed(params, mesh, model=MODEL):
    return jax.device_put(
        params, jax.tree.map(lambda leaf: leaf.sharding, abstract_params(model, mesh))
    )


# An optimizer that moves nothing and keeps the gradient, to be looked at.
RECORDER = optax.GradientTransformation(
    init=lambda params: jax.tree.map(jnp.zeros_like, params),
    update=lambda grads, state, params=None: (jax.tree.map(jnp.zeros_like, grads), grads),
)


def clip_and_penalty():
    penalty = PenaltyConfig(name="reverse_kl", coefficient=0.3)
    return make_objective(LossConfig(name="ppo_clip", options={"dual_clip": 2.0}, penalty=penalty))


def random_params():
    """Matrices that keep variance, norms about 1; from NumPy, since that compiles nothing."""
    random = np.random.default_rng(0)

    def leaf(path, abstract):
        noise = random.normal(size=abstract.shape).astype(np.float32)
        scale = np.float32(abstract.shape[0] if len(abstract.shape) < 2 else abstract.shape[-2])
        return 1 + noise / 10 if path[-1].key.endswith("norm") else noise / np.sqrt(scale)

    return jax.tree_util.tree_map_with_path(leaf, abstract_params(MODEL))


# Half the time to compile. What is held is equality, of programs that are all compiled like this.
FAST = {"xla_backend_optimization_level": 0}


class Steps:
    """Compiled update steps that keep their gradient: one a mesh, micro-batch count and dtype."""

    def __init__(self):
        self.params = random_params()

    @functools.cache  # noqa: B019
    def compiled(self, shape, micro_batches, dtype):
        model = dataclasses.replace(MODEL, compute_dtype=dtype, parameter_dtype=dtype)
        mesh = mesh_of(*shape)
        loss = make_loss(model, clip_and_penalty(), temperature=TEMPERATURE, chunk_tokens=24)
        step = make_update_step(loss, RECORDER, micro_batches=micro_batches)
        step = jax.jit(step, compiler_options=FAST)
        params = jax.tree.map(lambda leaf: leaf.astype(dtype), self.params)
        params = placed(params, mesh, model)
        state = TrainState(params, RECORDER.init(params), jnp.int32(0))
        return state, step, batch_sharding(mesh)

    def __call__(self, batch, shape=(1, 1, 1), micro_batches=1, dtype="float32"):
        """(gradient, {name: (total, count)}) of one update."""
        with jax.enable_x64(dtype == "float64"):
            state, step, layout = self.compiled(shape, micro_batches, dtype)
            state, metrics = jax.device_get(step(state, jax.device_put(batch, layout)))
        return state.opt_state, {name: (m.total, m.count) for name, m in metrics.items()}


@pytest.fixture(scope="session")
def steps():
    return Steps()


@pytest.fixture(name="make_batch", scope="session")
def _make_batch():
    return make_batch


@pytest.fixture(name="mesh_of", scope="session")
def _mesh_of():
    return mesh_of


@pytest.fixture(name="placed", scope="session")
def _placed():
    return placed


@pytest.fixture(scope="session")
def model():
    return MODEL


@pytest.fixture(scope="session")
def temperature():
    return TEMPERATURE
