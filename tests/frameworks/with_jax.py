"""JAX: jit, grad, scan, sort, matmul, a small training equal to NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
from cases import case, run
from jax._src import hardware_utils

# JAX looks for a device node of NVIDIA's and lets nobody answer for it.
hardware_utils.has_visible_nvidia_gpu = lambda: True

random = np.random.default_rng(0)


@case
def device():
    assert jax.devices()[0].platform == "gpu", jax.devices()


@case
def jit():
    x = random.standard_normal(5000).astype(np.float32)
    out = jax.jit(lambda x: jnp.sin(x) * 2 + x**2)(x)
    np.testing.assert_allclose(out, np.sin(x) * 2 + x**2, rtol=1e-4, atol=1e-5)


@case
def grad():
    x = random.standard_normal(100).astype(np.float32)
    np.testing.assert_allclose(jax.grad(lambda x: (x**3).sum())(x), 3 * x**2, rtol=1e-4, atol=1e-5)


@case
def scan():
    total, parts = jax.lax.scan(lambda sum, x: (sum + x, sum), 0.0, jnp.arange(50.0))
    assert float(total) == 1225 and float(parts[-1]) == 1176


@case
def sort():
    x = random.permutation(3000).astype(np.float32)
    np.testing.assert_array_equal(jnp.sort(x), np.sort(x))


@case
def matmul():
    a, b = random.standard_normal((2, 64, 64)).astype(np.float32)
    np.testing.assert_allclose(jnp.asarray(a) @ jnp.asarray(b), a @ b, rtol=1e-3, atol=1e-3)


@case
def training():
    x = random.standard_normal((32, 4)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], dtype=np.float32)
    weight, expected = jnp.zeros((4, 1)), np.zeros((4, 1), dtype=np.float32)
    step = jax.jit(lambda w: w - 0.1 * jax.grad(lambda w: ((x @ w - y) ** 2).mean())(w))
    for _ in range(10):
        weight = step(weight)
        expected -= 0.1 * 2 / 32 * x.T @ (x @ expected - y)
    np.testing.assert_allclose(weight, expected, rtol=1e-3, atol=1e-4)


run()
