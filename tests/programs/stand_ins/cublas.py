"""Products and calls on vectors of cuBLAS and cuBLASLt, each against sums made here."""
import ctypes
import itertools
import math
from ctypes import byref, c_double, c_float, c_int, c_int64, c_longlong, c_size_t, c_uint64, c_void_p

driver, blas = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.13")
light = ctypes.CDLL("libcublasLt.so.13")


def check(result):
    assert result == 0, result


class Complex(ctypes.Structure):
    _fields_ = [("re", c_double), ("im", c_double)]


def of(kind, value):
    if kind is c_uint64:
        return kind(value)
    return Complex(value.real, value.imag) if kind is Complex else kind(value.real)


def back(value):
    if isinstance(value, Complex):
        return complex(value.re, value.im)
    return getattr(value, "value", value)


class OnDevice:
    def __init__(self, kind, values):
        self.kind, self.count, self.address = kind, len(values), c_uint64()
        data = (kind * self.count)(*[of(kind, value) for value in values])
        check(driver.cuMemAlloc_v2(byref(self.address), c_size_t(max(ctypes.sizeof(data), 1))))
        check(driver.cuMemcpyHtoD_v2(self.address, data, c_size_t(ctypes.sizeof(data))))

    def place(self, elements=0):
        return c_void_p(self.address.value + elements * ctypes.sizeof(self.kind))

    def values(self):
        data = (self.kind * self.count)()
        check(driver.cuMemcpyDtoH_v2(data, self.address, c_size_t(ctypes.sizeof(data))))
        return [back(value) for value in data]


def numbers(count, kind, seed):
    plain = [((seed + 7 * nth) % 23 - 11) / 4 for nth in range(count)]
    return [complex(value, value / 2 - 1) for value in plain] if kind is Complex else plain


def close(found, wanted):
    return len(found) == len(wanted) and all(abs(a - b) <= 1e-3 * (1 + abs(b)) for a, b in zip(found, wanted))


def element(matrix, rows, form, i, j):
    """Of op(matrix), which lies in columns of `rows` elements."""
    value = matrix[i + j * rows] if form == 0 else matrix[j + i * rows]
    return value.conjugate() if form == 2 else value


def product(a, rows_a, form_a, b, rows_b, form_b, m, n, k):
    at = lambda i, j: sum(element(a, rows_a, form_a, i, l) * element(b, rows_b, form_b, l, j) for l in range(k))
    return [at(i, j) for j in range(n) for i in range(m)]


context, handle = c_void_p(), c_void_p()
check(driver.cuInit(0))
check(driver.cuDevicePrimaryCtxRetain(byref(context), 0))
check(driver.cuCtxSetCurrent(context))
check(blas.cublasCreate_v2(byref(handle)))

FORMS = {"S": c_float, "D": c_double, "Z": Complex}
m, n, k = 5, 7, 3
for letter, kind in FORMS.items():
    for form_a, form_b in itertools.product(range(3), range(3)):
        a, b, c = numbers(m * k, kind, 1), numbers(k * n, kind, 2), numbers(m * n, kind, 3)
        on_a, on_b, on_c = (OnDevice(kind, values) for values in (a, b, c))
        rows_a, rows_b = (m, k)[form_a > 0], (k, n)[form_b > 0]
        alpha, beta = of(kind, 2 + 0j), of(kind, -1 + 0j)
        check(getattr(blas, f"cublas{letter}gemm_v2")(
            handle, form_a, form_b, m, n, k, byref(alpha), on_a.place(), rows_a, on_b.place(), rows_b,
            byref(beta), on_c.place(), m))
        wanted = [2 * new - old for new, old in zip(product(a, rows_a, form_a, b, rows_b, form_b, m, n, k), c)]
        assert close(on_c.values(), wanted), (letter, form_a, form_b)
print("products: right")

# Batches by stride, with factors on the device, and by addresses.
a, b = numbers(2 * m * k, c_float, 4), numbers(2 * k * n, c_float, 5)
on_a, on_b, on_c = OnDevice(c_float, a), OnDevice(c_float, b), OnDevice(c_float, [0.0] * (2 * m * n))
factors = OnDevice(c_float, [1.0, 0.0])
check(blas.cublasSetPointerMode_v2(handle, 1))
check(blas.cublasSgemmStridedBatched(
    handle, 0, 0, m, n, k, factors.place(), on_a.place(), m, c_longlong(m * k), on_b.place(), k,
    c_longlong(k * n), factors.place(1), on_c.place(), m, c_longlong(m * n), 2))
check(blas.cublasSetPointerMode_v2(handle, 0))
wanted = sum((product(a[q * m * k:], m, 0, b[q * k * n:], k, 0, m, n, k) for q in range(2)), [])
assert close(on_c.values(), wanted)
lists = [OnDevice(c_uint64, [on.place(q * size).value for q in range(2)])
         for on, size in ((on_a, m * k), (on_b, k * n), (on_c, m * n))]
one = c_float(1)
check(blas.cublasSgemmBatched(handle, 0, 0, m, n, k, byref(one), lists[0].place(), m, lists[1].place(), k,
                              byref(one), lists[2].place(), m, 2))
assert close(on_c.values(), [2 * value for value in wanted])
print("batches: right")

for letter, kind in FORMS.items():
    x, y, two = numbers(300, kind, 6), numbers(300, kind, 8), of(kind, 2 + 0j)
    on_x, on_y = OnDevice(kind, x), OnDevice(kind, y)
    check(getattr(blas, f"cublas{letter}axpy_v2")(handle, 300, byref(two), on_x.place(), -1, on_y.place(), 1))
    assert close(on_y.values(), [2 * p + q for p, q in zip(x[::-1], y)])
    dot = of(kind, 0j)
    name = "dotc" if kind is Complex else "dot"
    check(getattr(blas, f"cublas{letter}{name}_v2")(handle, 150, on_x.place(), 2, on_x.place(1), 2, byref(dot)))
    assert close([back(dot)], [sum(p.conjugate() * q for p, q in zip(x[::2], x[1::2]))])
    norm = (c_float if kind is c_float else c_double)(0)
    name = "Dznrm2" if kind is Complex else f"{letter}nrm2"
    check(getattr(blas, f"cublas{name}_v2")(handle, 300, on_x.place(), 1, byref(norm)))
    assert close([norm.value], [math.sqrt(sum(abs(value) ** 2 for value in x))])
    matrix, vector, result = numbers(20 * 15, kind, 9), numbers(20, kind, 10), OnDevice(kind, [0j] * 15)
    zero = of(kind, 0j)
    check(getattr(blas, f"cublas{letter}gemv_v2")(
        handle, 2, 20, 15, byref(two), OnDevice(kind, matrix).place(), 20, OnDevice(kind, vector).place(), 1,
        byref(zero), result.place(), 1))
    wanted = [2 * sum(matrix[i + 20 * j].conjugate() * vector[i] for i in range(20)) for j in range(15)]
    assert close(result.values(), wanted)
place = c_int()
check(blas.cublasIsamax_v2(handle, 5, OnDevice(c_float, [1.0, -3.0, 2.0, 3.0, 0.0]).place(), 1, byref(place)))
assert place.value == 2
print("vectors: right")


def layout(rows, columns):
    made = c_void_p()
    check(light.cublasLtMatrixLayoutCreate(byref(made), 0, c_uint64(rows), c_uint64(columns), c_int64(rows)))
    return made


DEFAULT, RELU, GELU_BIAS, RELU_AUX = 1, 2, 36, 130
a, b, bias = numbers(k * m, c_float, 11), numbers(k * n, c_float, 12), numbers(m, c_float, 13)
on_a, on_b, on_bias = OnDevice(c_float, a), OnDevice(c_float, b), OnDevice(c_float, bias)
plain = product(a, k, 1, b, k, 0, m, n, k)
gelu = lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
biased = [value + bias[nth % m] for nth, value in enumerate(plain)]
wanted = {DEFAULT: plain, RELU: [max(x, 0) for x in plain], GELU_BIAS: [gelu(x) for x in biased]}
for epilogue in (*wanted, RELU_AUX):
    description, count, found = c_void_p(), c_int(), ctypes.create_string_buffer(96)
    check(light.cublasLtMatmulDescCreate(byref(description), 68, 0))
    for attribute, value in (3, c_int(1)), (7, c_int(epilogue)), (8, c_uint64(on_bias.address.value)):
        size = c_size_t(ctypes.sizeof(value))
        check(light.cublasLtMatmulDescSetAttribute(description, attribute, byref(value), size))
    layouts, on_c = (layout(k, m), layout(k, n), layout(m, n)), OnDevice(c_float, [0.0] * (m * n))
    status = light.cublasLtMatmulAlgoGetHeuristic(
        None, description, layouts[0], layouts[1], layouts[2], layouts[2], None, 1, found, byref(count))
    if epilogue not in wanted:
        print("an epilogue that is not done:", status, count.value)
        continue
    assert (status, count.value) == (0, 1)
    one, zero = c_float(1), c_float(0)
    check(light.cublasLtMatmul(None, description, byref(one), on_a.place(), layouts[0], on_b.place(), layouts[1],
                               byref(zero), on_c.place(), layouts[2], on_c.place(), layouts[2], found, None,
                               c_size_t(0), None))
    assert close(on_c.values(), wanted[epilogue]), epilogue
print("cublasLt: right")
print("what is not done:", blas.cublasStrsm_v2(handle))
check(blas.cublasDestroy_v2(handle))
