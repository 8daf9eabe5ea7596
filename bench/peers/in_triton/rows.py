# Rows at a time in Triton: softmax, norms, cross entropy.
import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer

from .common import processors, row_warps, rows_of, works


def warp_choices(size):
    return ((row_warps(size),), (min(32, 2 * row_warps(size)),))


@triton.jit
def softmax_kernel(x, y, width, LOG: tl.constexpr, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    column = tl.arange(0, SIZE)
    values = tl.load(x + row + column, column < width, -float("inf")).to(tl.float32)
    values -= tl.max(values, 0)
    powers = tl.exp(values)
    total = tl.sum(powers, 0)
    result = values - tl.log(total) if LOG else powers / total
    tl.store(y + row + column, result.to(y.dtype.element_ty), column < width)


@triton.jit
def softmax_backward_kernel(y, dy, dx, width, LOG: tl.constexpr, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    column = tl.arange(0, SIZE)
    there = column < width
    p = tl.load(y + row + column, there, 0.0).to(tl.float32)
    d = tl.load(dy + row + column, there, 0.0).to(tl.float32)
    if LOG:
        result = d - tl.exp(p) * tl.sum(d, 0)
    else:
        result = p * (d - tl.sum(p * d, 0))
    tl.store(dx + row + column, result.to(dx.dtype.element_ty), there)


@peer(TRITON, "softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
def _(c):
    names, log = ("y", "dy") if c.is_backward() else ("x",), c.kernel.startswith("log")
    rows, width = rows_of(c, *names)
    size, result = triton.next_power_of_2(width), torch.empty_like(c[names[0]])
    c.require(size <= 65536, "rows that fit into registers only")
    kernel, tensors = softmax_backward_kernel if c.is_backward() else softmax_kernel, [c[name] for name in names]
    launch = lambda warps: kernel[(rows,)](*tensors, result, width, LOG=log, SIZE=size, num_warps=warps)  # noqa: E731
    return works(launch, result, *warp_choices(size))


@triton.jit
def norm_kernel(x, residual, w, b, y, h, mean, rstd, width, eps, CENTRED: tl.constexpr, ADDED: tl.constexpr,
                SIZE: tl.constexpr):  # fmt: skip
    index = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, SIZE)
    there = column < width
    values = tl.load(x + index * width + column, there, 0.0).to(tl.float32)
    if ADDED:
        total = (values + tl.load(residual + index * width + column, there, 0.0).to(tl.float32)).to(h.dtype.element_ty)
        tl.store(h + index * width + column, total, there)
        values = total.to(tl.float32)
    if CENTRED:
        middle = tl.sum(values, 0) / width
        values = tl.where(there, values - middle, 0.0)
        tl.store(mean + index, middle)
    scale = 1 / tl.sqrt(tl.sum(values * values, 0) / width + eps)
    tl.store(rstd + index, scale)
    result = values * scale * tl.load(w + column, there, 0.0).to(tl.float32)
    if CENTRED:
        result += tl.load(b + column, there, 0.0).to(tl.float32)
    tl.store(y + index * width + column, result.to(y.dtype.element_ty), there)


def require_weights(c, centred):
    c.require("w" in c and (not centred or "b" in c), "norms without weights were not written for it")


@peer(TRITON, "layer_norm", "rms_norm")
def _(c):
    centred, added = c.kernel == "layer_norm", "residual" in c
    require_weights(c, centred)
    (rows, width), x, w = rows_of(c, "x"), c["x"], c["w"]
    b, eps = c["b"] if centred else w, c.number("eps", 1e-5 if centred else 1e-6)
    y, h, size = torch.empty_like(x), torch.empty_like(x), triton.next_power_of_2(width)
    mean, rstd = (torch.empty(rows, device=DEVICE, dtype=torch.float32) for _ in range(2))

    def launch(warps):
        norm_kernel[(rows,)](x, c["residual"] if added else x, w, b, y, h, mean, rstd, width, eps,
                             CENTRED=centred, ADDED=added, SIZE=size, num_warps=warps)  # fmt: skip

    return works(launch, (y, h, rstd) if added else (y, mean, rstd) if centred else (y, rstd), *warp_choices(size))


@triton.jit
def norm_backward_kernel(x, w, mean, rstd, dy, dx, parts, rows, width, CENTRED: tl.constexpr, SIZE: tl.constexpr):
    # A program has every so many rows, and leaves its sums of the weights' gradients.
    column = tl.arange(0, SIZE)
    there = column < width
    weights = tl.load(w + column, there, 0.0).to(tl.float32)
    slopes, sums = tl.zeros((SIZE,), tl.float32), tl.zeros((SIZE,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.cast(row, tl.int64) * width + column
        d = tl.load(dy + at, there, 0.0).to(tl.float32)
        values = tl.load(x + at, there, 0.0).to(tl.float32)
        scale = tl.load(rstd + row)
        if CENTRED:
            values = tl.where(there, values - tl.load(mean + row), 0.0)
        values *= scale
        slopes += d * values
        weighed = d * weights
        result = weighed - values * (tl.sum(weighed * values, 0) / width)
        if CENTRED:
            sums += d
            result -= tl.sum(weighed, 0) / width
        tl.store(dx + at, (result * scale).to(dx.dtype.element_ty), there)
    own = parts + tl.program_id(0) * width + column
    tl.store(own, slopes, there)
    if CENTRED:
        tl.store(own + tl.num_programs(0) * width, sums, there)


@triton.jit
def column_sums_kernel(parts, result, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    parts += tl.program_id(1) * rows * width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        total += tl.load(parts + row * width + column, (row < rows) & (column < width), 0.0)
    sums = tl.sum(total, 0)[None, :].to(result.dtype.element_ty)
    tl.store(result + tl.program_id(1) * width + column, sums, column < width)


@peer(TRITON, "layer_norm_backward", "rms_norm_backward")
def _(c):
    centred = c.kernel.startswith("layer")
    require_weights(c, centred)
    c.require("residual" not in c and "dh" not in c, "the sum with a residual was not written for it")
    (rows, width), x, w, dy = rows_of(c, "x", "dy"), c["x"], c["w"], c["dy"]
    values = x.reshape(rows, width).float()
    mean = values.mean(-1)
    rstd = torch.rsqrt((values.var(-1, correction=0) if centred else values.square().mean(-1)) + (1e-5 if centred else 1e-6))
    del values
    dx, size, gradients = torch.empty_like(x), triton.next_power_of_2(width), torch.empty((2, width), device=DEVICE, dtype=w.dtype)
    most = min(rows, 8 * processors())
    parts = torch.empty((2, most, width), device=DEVICE, dtype=torch.float32)

    def launch(each, warps):
        programs = min(rows, each * processors())
        norm_backward_kernel[(programs,)](x, w, mean, rstd, dy, dx, parts, rows, width, CENTRED=centred, SIZE=size,
                                          num_warps=warps)  # fmt: skip
        column_sums_kernel[(triton.cdiv(width, 32), 1 + centred)](parts, gradients, programs, width, ROWS=64, COLUMNS=32)

    results = (dx, gradients[0], gradients[1]) if centred else (dx, gradients[0])
    return works(launch, results, (1, 16), (2, 8), (4, 8), (8, 4))


@triton.jit
def cross_entropy_kernel(logits, targets, loss, lse, width, ignored, SIZE: tl.constexpr):
    index = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + index)
    highest = -float("inf")
    total = 0.0
    for start in range(0, width, SIZE):
        column = start + tl.arange(0, SIZE)
        values = tl.load(logits + index * width + column, column < width, -float("inf")).to(tl.float32)
        new = tl.maximum(highest, tl.max(values, 0))
        total = total * tl.exp(highest - new) + tl.sum(tl.exp(values - new), 0)
        highest = new
    logarithm = highest + tl.log(total)
    tl.store(lse + index, logarithm)
    if target == ignored:
        tl.store(loss + index, 0.0)
    else:
        own = tl.load(logits + index * width + target).to(tl.float32)
        tl.store(loss + index, logarithm - own)


@triton.jit
def cross_entropy_backward_kernel(logits, targets, lse, dloss, count, dlogits, width, ignored, SHARED: tl.constexpr,
                                  SIZE: tl.constexpr):  # fmt: skip
    index = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    there = column < width
    target = tl.load(targets + index)
    # One gradient for all rows, or one for each.
    scale = tl.load(dloss) / tl.load(count) if SHARED else tl.load(dloss + index)
    scale = tl.where(target == ignored, 0.0, scale)
    values = tl.load(logits + index * width + column, there, 0.0).to(tl.float32)
    result = scale * (tl.exp(values - tl.load(lse + index)) - tl.where(column == target, 1.0, 0.0))
    tl.store(dlogits + index * width + column, result.to(dlogits.dtype.element_ty), there)


def plain_loss(c):
    c.require(c.number("label_smoothing") == 0 and c.number("lse_square") == 0 and "class_weights" not in c,
              "only the plain loss was written for it")  # fmt: skip
    return c.integer("ignore_index", -100), c.choice("reduction", "mean")


@peer(TRITON, "cross_entropy")
def _(c):
    (rows, width), logits, targets = rows_of(c, "logits"), c["logits"], c["targets"]
    ignored, reduction = plain_loss(c)
    loss, lse = (torch.empty(rows, device=DEVICE, dtype=torch.float32) for _ in range(2))

    def with_size(size, warps):
        def work():
            cross_entropy_kernel[(rows,)](logits, targets, loss, lse, width, ignored, SIZE=size, num_warps=warps)
            if reduction == "mean":
                return loss.sum() / (targets != ignored).sum(), lse
            return (loss.sum() if reduction == "sum" else loss), lse

        return work

    whole = triton.next_power_of_2(width)
    return [with_size(min(8192, whole), 16), with_size(min(4096, whole), 8), with_size(min(32768, whole), 32)]


@peer(TRITON, "cross_entropy_backward")
def _(c):
    (rows, width), logits, targets, dloss = rows_of(c, "logits"), c["logits"], c["targets"], c["dloss"]
    ignored, reduction = plain_loss(c)
    lse = torch.logsumexp(logits.reshape(rows, width).float(), -1)
    count = (targets != ignored).sum().float() if reduction == "mean" else torch.ones((), device=DEVICE)
    result = torch.empty_like(logits)

    def launch(size, warps):
        cross_entropy_backward_kernel[(rows, triton.cdiv(width, size))](
            logits, targets, lse, dloss.float(), count, result, width, ignored, SHARED=reduction != "none", SIZE=size, num_warps=warps)  # fmt: skip

    whole = triton.next_power_of_2(width)
    return works(launch, result, (min(2048, whole), 4), (min(8192, whole), 8))


@triton.jit
def group_norm_kernel(x, w, b, y, mean, rstd, groups, channels, length, eps, SIZE: tl.constexpr):
    # One group of one batch: its channels lie behind one another.
    index = tl.program_id(0)
    first, count, column = index.to(tl.int64) * channels * length, channels * length, tl.arange(0, SIZE)
    sums, squares = tl.zeros((SIZE,), tl.float32), tl.zeros((SIZE,), tl.float32)
    for start in range(0, count, SIZE):
        values = tl.load(x + first + start + column, start + column < count, 0.0).to(tl.float32)
        sums += values
        squares += values * values
    middle = tl.sum(sums, 0) / count
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / count - middle * middle + eps)
    tl.store(mean + index, middle)
    tl.store(rstd + index, scale)
    for start in range(0, count, SIZE):
        place = start + column
        there = place < count
        channel = index % groups * channels + place // length
        values = tl.load(x + first + place, there, 0.0).to(tl.float32)
        weight, bias = tl.load(w + channel, there, 0.0).to(tl.float32), tl.load(b + channel, there, 0.0).to(tl.float32)
        tl.store(y + first + place, ((values - middle) * scale * weight + bias).to(y.dtype.element_ty), there)


@triton.jit
def group_norm_backward_kernel(x, w, mean, rstd, dy, dx, parts, groups, channels, length, SIZE: tl.constexpr):
    # Each batch leaves its sums of the weights' gradients.
    index = tl.program_id(0)
    middle, scale, column = tl.load(mean + index), tl.load(rstd + index), tl.arange(0, SIZE)
    own = index // groups * groups * channels + index % groups * channels
    all_sums, all_products = 0.0, 0.0
    for channel in range(channels):
        row = (tl.cast(index, tl.int64) * channels + channel) * length
        sums, products = tl.zeros((SIZE,), tl.float32), tl.zeros((SIZE,), tl.float32)
        for start in range(0, length, SIZE):
            there = start + column < length
            d = tl.load(dy + row + start + column, there, 0.0).to(tl.float32)
            sums += d
            products += d * (tl.load(x + row + start + column, there, 0.0).to(tl.float32) - middle) * scale
        total, product = tl.sum(sums, 0), tl.sum(products, 0)
        tl.store(parts + own + channel, product)
        tl.store(parts + tl.num_programs(0) * channels + own + channel, total)
        weight = tl.load(w + index % groups * channels + channel).to(tl.float32)
        all_sums += weight * total
        all_products += weight * product
    all_sums /= channels * length
    all_products /= channels * length
    for channel in range(channels):
        row = (tl.cast(index, tl.int64) * channels + channel) * length
        weight = tl.load(w + index % groups * channels + channel).to(tl.float32)
        for start in range(0, length, SIZE):
            there = start + column < length
            d = tl.load(dy + row + start + column, there, 0.0).to(tl.float32)
            values = (tl.load(x + row + start + column, there, 0.0).to(tl.float32) - middle) * scale
            result = (weight * d - all_sums - values * all_products) * scale
            tl.store(dx + row + start + column, result.to(dx.dtype.element_ty), there)


@peer(TRITON, "group_norm")
def _(c):
    x, w, b, groups = c["x"], c["w"], c["b"], c.integer("groups", 32)
    rows_of(c, "x")
    channels, length = x.shape[1] // groups, x[0, 0].numel()
    y, mean, rstd = torch.empty_like(x), *(torch.empty((x.shape[0], groups), device=DEVICE) for _ in range(2))

    def launch(size, warps):
        group_norm_kernel[(x.shape[0] * groups,)](x, w, b, y, mean, rstd, groups, channels, length, c.number("eps", 1e-5), SIZE=size,
                                                  num_warps=warps)  # fmt: skip

    return works(launch, (y, mean, rstd), (4096, 8), (8192, 16), (16384, 16))


@peer(TRITON, "group_norm_backward")
def _(c):
    x, w, dy, groups = c["x"], c["w"], c["dy"], c["mean"].shape[1]
    rows_of(c, "x", "dy")
    batches, count = x.shape[:2]
    values = x.reshape(batches, groups, -1).float()
    mean, rstd = values.mean(-1), torch.rsqrt(values.var(-1, correction=0) + 1e-5)
    del values
    dx, gradients = torch.empty_like(x), torch.empty((2, count), device=DEVICE, dtype=w.dtype)
    parts = torch.empty((2, batches, count), device=DEVICE, dtype=torch.float32)

    def launch(size, warps):
        group_norm_backward_kernel[(batches * groups,)](x, w, mean, rstd, dy, dx, parts, groups, count // groups, x[0, 0].numel(),
                                                        SIZE=size, num_warps=warps)  # fmt: skip
        column_sums_kernel[(triton.cdiv(count, 32), 2)](parts, gradients, batches, count, ROWS=16, COLUMNS=32)

    return works(launch, (dx, gradients[0], gradients[1])[: len(c.outputs)], (1024, 4), (4096, 8), (4096, 16))
