"""Compiles usual Triton kernels for compute capability 9.0, without a device, and writes their PTX: triton_kernels.py FOLDER."""

import sys, pathlib
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
out = pathlib.Path(sys.argv[1])

@triton.jit
def add(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B); m = i < n
    tl.store(z + i, tl.load(x + i, m) + tl.load(y + i, m), m)

@triton.jit
def softmax(y, x, sx, sy, n, B: tl.constexpr):
    row = tl.program_id(0); i = tl.arange(0, B); m = i < n
    v = tl.load(x + row * sx + i, m, other=-float("inf")); v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * sy + i, v / tl.sum(v, 0), m)

@triton.jit
def layer_norm(x, y, w, b, stride, n, eps, B: tl.constexpr):
    row = tl.program_id(0); x += row * stride; y += row * stride
    total = tl.zeros([B], tl.float32)
    for o in range(0, n, B):
        i = o + tl.arange(0, B); total += tl.load(x + i, i < n, other=0.)
    mean = tl.sum(total, 0) / n
    var = tl.zeros([B], tl.float32)
    for o in range(0, n, B):
        i = o + tl.arange(0, B); v = tl.where(i < n, tl.load(x + i, i < n, other=0.) - mean, 0.); var += v * v
    r = 1 / tl.sqrt(tl.sum(var, 0) / n + eps)
    for o in range(0, n, B):
        i = o + tl.arange(0, B); m = i < n
        tl.store(y + i, (tl.load(x + i, m) - mean) * r * tl.load(w + i, m) + tl.load(b + i, m), m)

@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0); nm = tl.cdiv(M, BM); nn = tl.cdiv(N, BN); g = G * nn
    gid = pid // g; first = gid * G; gm = min(nm - first, G)
    pm = first + (pid % g) % gm; pn = (pid % g) // gm
    om = (pm * BM + tl.arange(0, BM)) % M; on = (pn * BN + tl.arange(0, BN)) % N; ok = tl.arange(0, BK)
    pa = a + om[:, None] * sam + ok[None, :] * sak; pb = b + ok[:, None] * sbk + on[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(pa, ok[None, :] < K - k * BK, other=0.), tl.load(pb, ok[:, None] < K - k * BK, other=0.), acc)
        pa += BK * sak; pb += BK * sbk
    cm = pm * BM + tl.arange(0, BM); cn = pn * BN + tl.arange(0, BN)
    tl.store(c + cm[:, None] * scm + cn[None, :] * scn, acc.to(tl.float16), (cm[:, None] < M) & (cn[None, :] < N))

@triton.jit
def dropout(x, y, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B); m = i < n
    tl.store(y + i, tl.where(tl.rand(seed, i) > p, tl.load(x + i, m) / (1 - p), 0.), m)

@triton.jit
def attention(q, k, v, o, scale, sz, sm, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    pm = tl.program_id(0); z = tl.program_id(1)
    q += z * sz; k += z * sz; v += z * sz; o += z * sz
    om = pm * BM + tl.arange(0, BM); od = tl.arange(0, D)
    qq = tl.load(q + om[:, None] * sm + od[None, :], om[:, None] < N, other=0.)
    mi = tl.full([BM], -float("inf"), tl.float32); li = tl.zeros([BM], tl.float32); acc = tl.zeros([BM, D], tl.float32)
    for s in range(0, N, BN):
        on = s + tl.arange(0, BN)
        kk = tl.load(k + on[None, :] * sm + od[:, None], on[None, :] < N, other=0.)
        qk = tl.where(on[None, :] < N, tl.dot(qq, kk) * scale, -float("inf"))
        mn = tl.maximum(mi, tl.max(qk, 1)); p = tl.exp(qk - mn[:, None]); al = tl.exp(mi - mn)
        li = li * al + tl.sum(p, 1)
        vv = tl.load(v + on[:, None] * sm + od[None, :], on[:, None] < N, other=0.)
        acc = tl.dot(p.to(tl.float16), vv, acc * al[:, None]); mi = mn
    tl.store(o + om[:, None] * sm + od[None, :], (acc / li[:, None]).to(tl.float16), om[:, None] < N)

@triton.jit
def embedding(ids, table, y, stride, n, B: tl.constexpr):
    row = tl.program_id(0); at = tl.load(ids + row); i = tl.arange(0, B); m = i < n
    tl.store(y + row * stride + i, tl.load(table + at * stride + i, m), m)

@triton.jit
def scatter_add(ids, x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B); m = i < n
    tl.atomic_add(y + tl.load(ids + i, m, other=0), tl.load(x + i, m), m)

@triton.jit
def row_sum(x, y, stride, n, B: tl.constexpr):
    row = tl.program_id(0); total = tl.zeros([B], tl.float32)
    for s in range(0, n, B):
        i = s + tl.arange(0, B); total += tl.load(x + row * stride + i, i < n, other=0.)
    tl.store(y + row, tl.sum(total, 0))

@triton.jit
def rope(x, c, s, y, stride, half, B: tl.constexpr):
    row = tl.program_id(0); i = tl.arange(0, B); m = i < half
    a = tl.load(x + row * stride + i, m); b = tl.load(x + row * stride + half + i, m)
    cc = tl.load(c + row * half + i, m); ss = tl.load(s + row * half + i, m)
    tl.store(y + row * stride + i, a * cc - b * ss, m); tl.store(y + row * stride + half + i, b * cc + a * ss, m)

@triton.jit
def adam(p, g, m1, m2, lr, b1, b2, eps, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B); k = i < n
    gg = tl.load(g + i, k); a = tl.load(m1 + i, k) * b1 + gg * (1 - b1); b = tl.load(m2 + i, k) * b2 + gg * gg * (1 - b2)
    tl.store(m1 + i, a, k); tl.store(m2 + i, b, k); tl.store(p + i, tl.load(p + i, k) - lr * a / (tl.sqrt(b) + eps), k)

@triton.jit
def transpose(x, y, M, N, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B); n = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N))
    tl.store(y + n[:, None] * M + m[None, :], tl.trans(v), (n[:, None] < N) & (m[None, :] < M))

@triton.jit
def cross_entropy(x, t, loss, stride, n, B: tl.constexpr):
    row = tl.program_id(0); i = tl.arange(0, B)
    v = tl.load(x + row * stride + i, i < n, other=-float("inf")); mx = tl.max(v, 0)
    at = tl.load(t + row)
    tl.store(loss + row, mx + tl.log(tl.sum(tl.exp(v - mx), 0)) - tl.load(x + row * stride + at))

P, H, I, F = "*fp32", "*fp16", "i32", "fp32"
jobs = [
 (add, dict(x=P,y=P,z=P,n=I), dict(B=1024)), (softmax, dict(y=P,x=P,sx=I,sy=I,n=I), dict(B=1024)),
 (layer_norm, dict(x=P,y=P,w=P,b=P,stride=I,n=I,eps=F), dict(B=1024)),
 (matmul, dict(a=H,b=H,c=H,M=I,N=I,K=I,sam=I,sak="constexpr",sbk=I,sbn="constexpr",scm=I,scn="constexpr"), dict(sak=1,sbn=1,scn=1,BM=128,BN=128,BK=64,G=8)),
 (dropout, dict(x=P,y=P,n=I,p=F,seed=I), dict(B=1024)),
 (attention, dict(q=H,k=H,v=H,o=H,scale=F,sz=I,sm=I,N=I), dict(D=64,BM=64,BN=64)),
 (embedding, dict(ids="*i64",table=P,y=P,stride=I,n=I), dict(B=1024)), (scatter_add, dict(ids="*i32",x=P,y=P,n=I), dict(B=512)),
 (row_sum, dict(x=P,y=P,stride=I,n=I), dict(B=1024)), (rope, dict(x=P,c=P,s=P,y=P,stride=I,half=I), dict(B=128)),
 (adam, dict(p=P,g=P,m1=P,m2=P,lr=F,b1=F,b2=F,eps=F,n=I), dict(B=1024)), (transpose, dict(x=P,y=P,M=I,N=I), dict(B=32)),
 (cross_entropy, dict(x=P,t="*i64",loss=P,stride=I,n=I), dict(B=1024)),
]
for function, kinds, constants in jobs:
    signature = {name: "constexpr" if name in constants else kinds[name] for name in function.arg_names}
    source = ASTSource(function, signature=signature, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_stages": 3})
    (out / f"{function.__name__}.ptx").write_text(made.asm["ptx"])
