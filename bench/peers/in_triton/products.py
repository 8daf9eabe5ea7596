# Products of matrices in Triton: plain, batched, by groups, of packed and of scaled operands.
import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer

from .common import works


@triton.jit
def place_of(number, m, n, M: tl.constexpr, N: tl.constexpr, GROUP: tl.constexpr):
    """Programs go down GROUP tiles before they go right, so that neighbours share operands in L2."""
    down, right = tl.cdiv(m, M), tl.cdiv(n, N)
    band = number // (GROUP * right)
    height = tl.minimum(down - band * GROUP, GROUP)
    inside = number % (GROUP * right)
    return band * GROUP + inside % height, inside // height


@triton.jit
def matmul_kernel(a, b, c, m, n, k, az, am, ak, bz, bk, bn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                  GROUP: tl.constexpr):  # fmt: skip
    row, column = place_of(tl.program_id(0), m, n, M, N, GROUP)
    batch = tl.program_id(1).to(tl.int64)
    i = (row * M + tl.arange(0, M)).to(tl.int64)
    j = (column * N + tl.arange(0, N)).to(tl.int64)
    depth = tl.arange(0, K)
    left = a + batch * az + (i % m)[:, None] * am + depth[None, :] * ak
    top = b + batch * bz + depth[:, None] * bk + (j % n)[None, :] * bn
    sums = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(left, depth[None, :] < k - start, 0.0)
        sums = tl.dot(x, tl.load(top, depth[:, None] < k - start, 0.0), sums)
        left += K * ak
        top += K * bk
    own = c + batch * m * n + i[:, None] * n + j[None, :]
    tl.store(own, sums.to(c.dtype.element_ty), (i < m)[:, None] & (j < n)[None, :])


@peer(TRITON, "matmul", "batched_matmul")
def _(c):
    a, b = c["a"], c["b"]
    c.require(a.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
    plain = {"a", "b"} == set(c.inputs) and c.number("alpha", 1) == 1 and c.choice("activation", "none") == "none"
    c.require(plain, "no epilogue was written for it")
    a, b = a.mT if c.flag("trans_a") else a, b.mT if c.flag("trans_b") else b
    if a.dim() == 2:
        a, b = a[None], b[None]
    (batches, m, k), n = a.shape, b.shape[2]
    y = torch.empty((batches, m, n), device=DEVICE, dtype=a.dtype)

    def launch(M, N, K, warps, stages):
        grid = (triton.cdiv(m, M) * triton.cdiv(n, N), batches)
        matmul_kernel[grid](a, b, y, m, n, k, *a.stride(), *b.stride(), M=M, N=N, K=K, GROUP=8, num_warps=warps, num_stages=stages)

    if m <= 64:
        return works(launch, y, (16, 64, 128, 4, 5), (16, 128, 128, 4, 4), (16, 32, 256, 4, 4))
    return works(launch, y, (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4))


@triton.jit
def group_of(sizes, number, groups, M: tl.constexpr):
    """The group that a tile of rows belongs to, which tile of it it is, and the group's first row and size; past
    the last tile the size is 0."""
    first, tiles, found, tile, start, size = 0, 0, 0, 0, 0, 0
    for g in range(groups):
        rows = tl.load(sizes + g)
        count = tl.cdiv(rows, M)
        inside = (number >= tiles) & (number < tiles + count)
        found = tl.where(inside, g, found)
        tile = tl.where(inside, number - tiles, tile)
        start = tl.where(inside, first, start)
        size = tl.where(inside, rows, size)
        first += rows
        tiles += count
    return found, tile, start, size


@triton.jit
def grouped_kernel(lhs, rhs, sizes, c, groups, n, k, bg, bk, bn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    group, tile, start, size = group_of(sizes, tl.program_id(1), groups, M)
    if size > 0:
        i = tile * M + tl.arange(0, M)
        j = tl.program_id(0) * N + tl.arange(0, N)
        depth = tl.arange(0, K)
        rows = (start + i % size).to(tl.int64)
        left = lhs + rows[:, None] * k + depth[None, :]
        top = rhs + group.to(tl.int64) * bg + depth[:, None] * bk + (j % n)[None, :] * bn
        sums = tl.zeros((M, N), tl.float32)
        for first in range(0, k, K):
            x = tl.load(left, depth[None, :] < k - first, 0.0)
            sums = tl.dot(x, tl.load(top, depth[:, None] < k - first, 0.0), sums)
            left += K
            top += K * bk
        tl.store(c + rows[:, None] * n + j[None, :], sums.to(c.dtype.element_ty), (i < size)[:, None] & (j < n)[None, :])


@peer(TRITON, "grouped_matmul")
def _(c):
    lhs, rhs, sizes = c["lhs"], c["rhs"], c["group_sizes"]
    c.require(lhs.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
    rhs = rhs.mT if c.flag("trans_rhs") else rhs
    (m, k), (groups, _, n) = lhs.shape, rhs.shape
    y = torch.empty((m, n), device=DEVICE, dtype=lhs.dtype)

    def launch(M, N, K, warps, stages):
        # So many tiles of rows at most: each group's last one may be partial.
        grid = (triton.cdiv(n, N), triton.cdiv(m, M) + groups)
        grouped_kernel[grid](lhs, rhs, sizes, y, groups, n, k, *rhs.stride(), M=M, N=N, K=K, num_warps=warps, num_stages=stages)

    return works(launch, y, (128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (64, 256, 64, 4, 4))


@triton.jit
def grouped_weights_kernel(lhs, dc, sizes, result, n, k, rk, rn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                           GROUP: tl.constexpr):  # fmt: skip
    # A tile of [K, N] of one group: the sum over its rows, M at a time.
    row, column = place_of(tl.program_id(0), k, n, K, N, GROUP)
    group = tl.program_id(1)
    start = 0
    for g in range(group):
        start += tl.load(sizes + g)
    size = tl.load(sizes + group)
    i, j, place = row * K + tl.arange(0, K), column * N + tl.arange(0, N), tl.arange(0, M)
    sums = tl.zeros((K, N), tl.float32)
    for first in range(0, size, M):
        there = (first + place < size)[:, None]
        rows = (start + first + place).to(tl.int64)[:, None]
        x = tl.load(lhs + rows * k + (i % k)[None, :], there, 0.0)
        y = tl.load(dc + rows * n + (j % n)[None, :], there, 0.0)
        sums = tl.dot(tl.trans(x), y, sums)
    own = result + group.to(tl.int64) * k * n + i[:, None] * rk + j[None, :] * rn
    tl.store(own, sums.to(result.dtype.element_ty), (i < k)[:, None] & (j < n)[None, :])


@peer(TRITON, "grouped_matmul_drhs")
def _(c):
    lhs, dc, sizes, trans = c["lhs"], c["dc"], c["group_sizes"], c.flag("trans_rhs")
    c.require(lhs.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
    k, n, groups = lhs.shape[1], dc.shape[1], sizes.numel()
    y = torch.empty((groups, n, k) if trans else (groups, k, n), device=DEVICE, dtype=lhs.dtype)

    def launch(M, N, K, warps, stages):
        grid = (triton.cdiv(k, K) * triton.cdiv(n, N), groups)
        grouped_weights_kernel[grid](lhs, dc, sizes, y, n, k, *((1, k) if trans else (n, 1)), M=M, N=N, K=K, GROUP=8,
                                     num_warps=warps, num_stages=stages)  # fmt: skip

    return works(launch, y, (64, 256, 128, 8, 3), (64, 128, 128, 4, 4), (64, 128, 128, 8, 3))


@triton.jit
def quantized_kernel(a, w, scales, zeros, c, m, n, k, steps, GROUP_K: tl.constexpr, ZEROS: tl.constexpr, M: tl.constexpr,
                     N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    row, column = place_of(tl.program_id(0), m, n, M, N, GROUP)
    i, j = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    depth, half = tl.arange(0, K), tl.arange(0, K // 2)
    rows, columns = (i % m).to(tl.int64), (j % n).to(tl.int64)
    sums = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + start + depth[None, :], depth[None, :] < k - start, 0.0)
        packed = tl.load(w + columns[:, None] * (k // 2) + start // 2 + half[None, :], half[None, :] < (k - start) // 2, 0)
        codes = tl.reshape(tl.join(packed & 15, packed >> 4), (N, K)).to(x.dtype)
        # A step lies within one group.
        scale = tl.load(scales + columns * steps + start // GROUP_K)
        if ZEROS:
            codes -= tl.load(zeros + columns * steps + start // GROUP_K)[:, None]
        else:
            codes -= 8
        sums = tl.dot(x, tl.trans(codes * scale[:, None]), sums)
    own = c + i.to(tl.int64)[:, None] * n + j[None, :]
    tl.store(own, sums.to(c.dtype.element_ty), (i < m)[:, None] & (j < n)[None, :])


@peer(TRITON, "quantized_matmul")
def _(c):
    a, w, scales = c["a"], c["w"], c["scales"]
    c.require(w.dtype == torch.uint8 and "bias" not in c and c.choice("activation", "none") == "none", "int4 without an epilogue only")
    (m, k), n, group = a.shape, w.shape[0], c.integer("group", 128)
    y, zeros = torch.empty((m, n), device=DEVICE, dtype=a.dtype), c["zeros"] if "zeros" in c else scales

    def launch(M, N, K, warps, stages):
        grid = (triton.cdiv(m, M) * triton.cdiv(n, N),)
        quantized_kernel[grid](a, w, scales, zeros, y, m, n, k, scales.shape[1], GROUP_K=group, ZEROS="zeros" in c, M=M, N=N,
                               K=min(K, group), GROUP=8, num_warps=warps, num_stages=stages)  # fmt: skip

    if m <= 64:
        return works(launch, y, (16, 32, 128, 4, 5), (16, 64, 128, 4, 4), (16, 16, 128, 2, 6))
    return works(launch, y, (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (128, 128, 32, 4, 4))


@triton.jit
def scaled_kernel(a, b, a_scales, b_scales, c, m, n, k, bk, bn, ss, sn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                  WIDTH: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    # A step is a block of K: its sums are those of the codes, scaled once.
    row, column = place_of(tl.program_id(0), m, n, M, N, GROUP)
    i, j, depth = row * M + tl.arange(0, M), column * N + tl.arange(0, N), tl.arange(0, K)
    rows, columns = (i % m).to(tl.int64), (j % n).to(tl.int64)
    left = a + rows[:, None] * k + depth[None, :]
    top = b + depth[:, None] * bk + columns[None, :] * bn
    blocks = tl.cdiv(k, K)
    sums = tl.zeros((M, N), tl.float32)
    for block in range(0, blocks):
        x = tl.load(left, depth[None, :] < k - block * K, 0.0)
        y = tl.load(top, depth[:, None] < k - block * K, 0.0)
        factors = tl.load(a_scales + rows * blocks + block)[:, None] * tl.load(b_scales + block * ss + columns // WIDTH * sn)[None, :]
        sums += tl.dot(x, y) * factors
        left += K
        top += K * bk
    own = c + i.to(tl.int64)[:, None] * n + j[None, :]
    tl.store(own, sums.to(c.dtype.element_ty), (i < m)[:, None] & (j < n)[None, :])


@peer(TRITON, "scaled_matmul")
def _(c):
    a, b, a_scales, b_scales = (c[name] for name in ("a", "b", "a_scales", "b_scales"))
    c.require(a.dtype != torch.int8 and "bias" not in c and c.choice("activation", "none") == "none", "fp8 without an epilogue only")
    depth = c.integer("block_k", 128)
    c.require(depth & (depth - 1) == 0, "blocks of a power of two only")
    if c.flag("trans_b"):
        b, b_scales = b.mT, b_scales.mT
    else:
        # The units of fp8 read b by columns; whoever stores weights for them does so beforehand.
        c.remark("b lies transposed beforehand")
        b = b.mT.contiguous().mT
    (m, k), n = a.shape, b.shape[1]
    y = torch.empty((m, n), device=DEVICE, dtype={"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[c.choice("out", "bf16")])

    def launch(M, N, warps, stages):
        grid = (triton.cdiv(m, M) * triton.cdiv(n, N),)
        scaled_kernel[grid](a, b, a_scales, b_scales, y, m, n, k, *b.stride(), *b_scales.stride(), M=M, N=N, K=depth,
                            WIDTH=c.integer("block_n", 128), GROUP=8, num_warps=warps, num_stages=stages)  # fmt: skip

    return works(launch, y, (128, 128, 8, 3), (128, 128, 4, 3), (64, 128, 4, 4))


@triton.jit
def conv_kernel(x, w, y, pixels, height, width, p, q, channels, filters, xn, xc, xh, xw, wk, wc, wr, ws, yn, yk, yp, yq,
                R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PAD_H: tl.constexpr,
                PAD_W: tl.constexpr, STEP_H: tl.constexpr, STEP_W: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                GROUP: tl.constexpr):  # fmt: skip
    # An implicit product: pixels of y by filters, over taps and channels.
    row, column = place_of(tl.program_id(0), pixels, filters, M, N, GROUP)
    i, j, depth = row * M + tl.arange(0, M), column * N + tl.arange(0, N), tl.arange(0, K)
    image, up, left = (i // (p * q)).to(tl.int64), i // q % p, i % q
    there = i < pixels
    sums = tl.zeros((M, N), tl.float32)
    steps = tl.cdiv(channels, K)
    for number in range(R * S * steps):
        tap, c = number // steps, number % steps * K + depth
        h = up * STRIDE_H - PAD_H + tap // S * STEP_H
        v = left * STRIDE_W - PAD_W + tap % S * STEP_W
        inside = there & (h >= 0) & (h < height) & (v >= 0) & (v < width)
        own = x + (image * xn + h * xh + v * xw)[:, None] + c[None, :] * xc
        pixel = tl.load(own, inside[:, None] & (c < channels)[None, :], 0.0)
        tops = w + (tap // S * wr + tap % S * ws) + j[None, :] * wk + c[:, None] * wc
        sums = tl.dot(pixel, tl.load(tops, (c < channels)[:, None] & (j < filters)[None, :], 0.0), sums)
    own = y + (image * yn + up * yp + left * yq)[:, None] + j[None, :] * yk
    tl.store(own, sums.to(y.dtype.element_ty), there[:, None] & (j < filters)[None, :])


@peer(TRITON, "conv2d")
def _(c):
    x, w = c["x"], c["w"]
    c.require("b" not in c and c.integer("groups", 1) == 1, "only one group without a bias was written for it")
    c.require(x.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
    nhwc = c.choice("layout", "nchw") == "nhwc"
    y = torch.empty(c.outputs["y"]["shape"], device=DEVICE, dtype=x.dtype)
    images, filters, result = (t.permute(0, 3, 1, 2) if nhwc else t for t in (x, w, y))
    (n, channels, height, width), (count, _, r, s), (p, q) = images.shape, filters.shape, result.shape[2:]
    steps = [c.integer(f"{name}_{axis}", first) for name, first in (("stride", 1), ("pad", 0), ("dilation", 1)) for axis in "hw"]

    def launch(M, N, K, warps, stages):
        conv_kernel[(triton.cdiv(n * p * q, M) * triton.cdiv(count, N),)](
            x, w, y, n * p * q, height, width, p, q, channels, count, *images.stride(), *filters.stride(), *result.stride(), r, s, *steps,
            M=M, N=N, K=K, GROUP=8, num_warps=warps, num_stages=stages)  # fmt: skip

    return works(launch, y, (128, 128, 64, 8, 3), (128, 64, 64, 4, 4), (128, 128, 32, 4, 4), (128, 256, 64, 8, 3))
