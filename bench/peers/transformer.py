"""The transformer of bench/transformer by PyTorch and JAX: what frameworks.py and transformer/compare.py time."""

import math
from typing import NamedTuple

import numpy as np

RATE, DECAY = 1e-4, 0.01


class Extents(NamedTuple):
    """As in bench/transformer/model.hpp."""

    layers: int
    features: int
    heads: int
    vocabulary: int
    context: int
    sequences: int


SMALL, GPT2 = Extents(6, 384, 12, 8192, 128, 1), Extents(12, 768, 12, 50257, 1024, 8)


def text(extents):
    """Numbers without a pattern: what is read [sequences, context], and what comes after each."""
    state, words = 12345, []
    for _ in range(extents.sequences * extents.context + 1):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        words.append((state >> 8) % extents.vocabulary)
    words = np.array(words)
    return words[:-1].reshape(extents.sequences, extents.context), words[1:]


def parameters(extents):
    random, d = np.random.default_rng(1), extents.features

    def normal(rows, columns):
        return random.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)

    def block():
        matrices = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
        weights = {name: (normal(*shape), np.zeros(shape[1], np.float32)) for name, shape in matrices.items()}
        norms = {name: (np.ones(d, np.float32), np.zeros(d, np.float32)) for name in ("norm_1", "norm_2")}
        return {**weights, **norms}

    return {
        "tokens": normal(extents.vocabulary, d),
        "positions": normal(extents.context, d),
        "blocks": [block() for _ in range(extents.layers)],
        "norm": (np.ones(d, np.float32), np.zeros(d, np.float32)),
    }


def torch_call(is_training, wrap, extents=SMALL, device="cpu"):
    """`wrap` is torch.compile or changes nothing."""
    import torch
    import torch.nn.functional as F

    read, wanted = (torch.from_numpy(words).to(device) for words in text(extents))
    d, rows = extents.features, extents.sequences * extents.context

    def on_leaves(value):
        if isinstance(value, dict):
            return {name: on_leaves(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [on_leaves(part) for part in value]
        return torch.from_numpy(value).to(device).requires_grad_(is_training)

    def leaves(value):
        if isinstance(value, dict):
            return [leaf for part in value.values() for leaf in leaves(part)]
        return [leaf for part in value for leaf in leaves(part)] if isinstance(value, list) else [value]

    model = on_leaves(parameters(extents))

    def of_heads(y):
        return y.view(extents.sequences, extents.context, extents.heads, d // extents.heads).transpose(1, 2)

    def logits():
        x = (F.embedding(read, model["tokens"]) + model["positions"]).view(rows, d)
        for block in model["blocks"]:
            q, k, v = torch.addmm(
                block["qkv"][1], F.layer_norm(x, (d,), *block["norm_1"]), block["qkv"][0]
            ).split(d, 1)
            a = F.scaled_dot_product_attention(of_heads(q), of_heads(k), of_heads(v), is_causal=True)
            x = x + torch.addmm(block["out"][1], a.transpose(1, 2).reshape(rows, d), block["out"][0])
            hidden = torch.addmm(block["up"][1], F.layer_norm(x, (d,), *block["norm_2"]), block["up"][0])
            x = x + torch.addmm(block["down"][1], F.gelu(hidden, approximate="tanh"), block["down"][0])
        return F.linear(F.layer_norm(x, (d,), *model["norm"]), model["tokens"])

    forward = wrap(logits)
    if not is_training:

        def call():
            with torch.no_grad():
                return forward()

        return call
    optimiser = torch.optim.AdamW(leaves(model), lr=RATE, weight_decay=DECAY, fused=True)

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(), wanted)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def jax_call(is_training, extents=SMALL):
    import jax
    import jax.numpy as jnp

    read, wanted = (jnp.asarray(words) for words in text(extents))
    model = jax.tree.map(jnp.asarray, parameters(extents))
    d, rows, context = extents.features, extents.sequences * extents.context, extents.context

    def normalised(x, norm):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * norm[0] + norm[1]

    def of_heads(y):
        return y.reshape(extents.sequences, context, extents.heads, d // extents.heads).swapaxes(1, 2)

    def logits(model):
        x = (model["tokens"][read] + model["positions"]).reshape(rows, d)
        for block in model["blocks"]:
            q, k, v = jnp.split(normalised(x, block["norm_1"]) @ block["qkv"][0] + block["qkv"][1], 3, 1)
            scores = of_heads(q) @ of_heads(k).swapaxes(2, 3) / math.sqrt(d // extents.heads)
            scores = jnp.where(jnp.tril(jnp.ones((context, context), bool)), scores, -jnp.inf)
            a = (jax.nn.softmax(scores, -1) @ of_heads(v)).swapaxes(1, 2).reshape(rows, d)
            x = x + a @ block["out"][0] + block["out"][1]
            hidden = normalised(x, block["norm_2"]) @ block["up"][0] + block["up"][1]
            x = x + jax.nn.gelu(hidden, approximate=True) @ block["down"][0] + block["down"][1]
        return normalised(x, model["norm"]) @ model["tokens"].T

    if not is_training:
        forward = jax.jit(logits)
        return lambda: forward(model)

    def loss_of(model):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(model)), wanted[:, None], 1).mean()

    def step(model, means, squares, number):
        loss, slopes = jax.value_and_grad(loss_of)(model)
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, slopes)
        squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, slopes)
        size, root = RATE / (1 - 0.9**number), (1 - 0.999**number) ** 0.5

        def updated(w, m, s):
            return w * (1 - RATE * DECAY) - size * m / (jnp.sqrt(s) / root + 1e-8)

        return loss, jax.tree.map(updated, model, means, squares), means, squares

    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    zeros = [jax.tree.map(jnp.zeros_like, model) for _ in range(2)]
    state = [model, *zeros, 0.0]

    def call():
        state[3] += 1
        loss, *state[:3] = compiled(*state)
        return loss, state[0]["tokens"]

    return call
