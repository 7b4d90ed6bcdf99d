"""Warp: elementwise work, atomics, a gradient."""

import numpy as np
import warp as wp
from cases import case, run

wp.config.cuda_output = "ptx"
wp.init()


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()] * x[wp.tid()])


@case
def elementwise():
    x = np.arange(1000, dtype=np.float32)
    y = wp.array(np.ones(1000, dtype=np.float32), device="cuda:0")
    wp.launch(saxpy, dim=1000, inputs=[2.0, wp.array(x, device="cuda:0"), y], device="cuda:0")
    np.testing.assert_allclose(y.numpy(), 2 * x + 1)


@case
def gradient():
    x = wp.array(np.arange(10, dtype=np.float32), device="cuda:0", requires_grad=True)
    out = wp.zeros(1, dtype=float, device="cuda:0", requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(total, dim=10, inputs=[x], outputs=[out], device="cuda:0")
    tape.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.arange(10))


run()
