"""Training steps of a small network under `jax.jit`.

XLA may choose matrix kernels by timing them, which would change the bits from run to
run; it is told not to.
"""

import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
os.environ["JAX_PLATFORMS"] = "cuda"

import jax
import jax.numpy as jnp
import numpy

from digest import arguments, print_digest


def predict(parameters, inputs):
    for weights, biases in parameters[:-1]:
        inputs = jnp.tanh(inputs @ weights + biases)
    weights, biases = parameters[-1]
    return inputs @ weights + biases


def loss(parameters, inputs, targets):
    return jnp.mean((predict(parameters, inputs) - targets) ** 2)


@jax.jit
def step(parameters, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    moved = jax.tree.map(lambda old, gradient: old - 0.05 * gradient, parameters, gradients)
    return moved, value


def main():
    steps = arguments(__doc__, steps=5).parse_args().steps
    random = numpy.random.default_rng(1)
    sizes = [64, 256, 256, 8]
    parameters = [
        (jnp.asarray(random.normal(0, 0.1, (rows, columns)), jnp.float32), jnp.zeros(columns))
        for rows, columns in zip(sizes, sizes[1:])
    ]
    inputs = jnp.asarray(random.normal(size=(128, sizes[0])), jnp.float32)
    targets = jnp.asarray(random.normal(size=(128, sizes[-1])), jnp.float32)
    losses = []
    for _ in range(steps):
        parameters, value = step(parameters, inputs, targets)
        losses.append(numpy.asarray(value))
    print_digest(*losses, *(numpy.asarray(leaf) for leaf in jax.tree.leaves(parameters)))


if __name__ == "__main__":
    main()
