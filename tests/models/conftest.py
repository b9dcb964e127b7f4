import math

import jax
import numpy as np
import pytest

from jaxgrpo.models import DecoderConfig, abstract_params

GQA = DecoderConfig(
    vocabulary_size=19, layers=2, hidden_size=12, heads=4, kv_heads=2, head_size=6, mlp_size=20
)


def random_params(config, seed=0):
    """Every leaf random, norms and biases too: a scale of 1 or a bias of 0 would hide them."""
    random = np.random.default_rng(seed)
    leaves, tree = jax.tree.flatten(abstract_params(config))
    values = [
        0.3 * random.normal(size=leaf.shape) + (leaf.ndim == 1 or leaf.shape[-1] == 6)
        for leaf in leaves
    ]
    return jax.tree.unflatten(
        tree, [value.astype(leaf.dtype) for value, leaf in zip(values, leaves, strict=True)]
    )


def norm(x, scale, epsilon):
    return x / math.sqrt(sum(v * v for v in x) / len(x) + epsilon) * scale


def turn(head, position, theta):
    """The pair (i, i + H/2) turned by position * theta^(-2i/H)."""
    size = len(head)
    turned = np.empty(size)
    for i in range(size // 2):
        angle = position * theta ** (-2 * i / size)
        one, other = head[i], head[i + size // 2]
        turned[i] = one * math.cos(angle) - other * math.sin(angle)
        turned[i + size // 2] = other * math.cos(angle) + one * math.sin(angle)
    return turned


def literal_logits(config, params, tokens):
    """[T, V] logits of one sequence without padding: float64 NumPy, a loop for every axis."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    blocks, epsilon, size = params["blocks"], config.norm_epsilon, config.head_size
    stream = [params["embedding"][token] for token in tokens]
    for layer in range(config.layers):
        block = {name: leaf[layer] for name, leaf in blocks.items()}
        heads = {}
        for t, x in enumerate(stream):
            normed = norm(x, block["attention_norm"], epsilon)
            for kind in ("query", "key", "value"):
                flat = normed @ block[kind]
                if config.attention_bias:
                    flat = flat + block[f"{kind}_bias"]
                for n, head in enumerate(flat.reshape(-1, size)):
                    if config.qk_norm and kind != "value":
                        head = norm(head, block[f"{kind}_norm"], epsilon)
                    if kind != "value":
                        head = turn(head, t, config.rope_theta)
                    heads[kind, t, n] = head
        for t in range(len(stream)):
            mixed = []
            for n in range(config.heads):
                k = n // (config.heads // config.kv_heads)
                scores = [
                    heads["query", t, n] @ heads["key", s, k] / math.sqrt(size)
                    for s in range(t + 1)
                ]
                weights = np.exp(scores) / np.sum(np.exp(scores))
                mixed.append(sum(w * heads["value", s, k] for s, w in enumerate(weights)))
            x = stream[t] + np.concatenate(mixed) @ block["output"]
            normed = norm(x, block["mlp_norm"], epsilon)
            gate = normed @ block["gate"]
            stream[t] = x + (gate / (1 + np.exp(-gate)) * (normed @ block["up"])) @ block["down"]
    last = [norm(x, params["final_norm"], epsilon) for x in stream]
    matrix = params["embedding"].T if config.tied_embeddings else params["unembedding"]
    return np.array([x @ matrix for x in last])


@pytest.fixture(scope="session")
def gqa():
    return GQA


@pytest.fixture(name="random_params", scope="session")
def _random_params():
    return random_params


@pytest.fixture(name="literal_logits", scope="session")
def _literal_logits():
    return literal_logits
