# Attention for serving in Triton: merges of parts, decoding and prefilling over pages.
import math

import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer
from in_pytorch.attention import plain_cache

from .common import require_power_of_two, works


@triton.jit
def merge_kernel(parts, logs, o, lse, rows, count, width, COUNT: tl.constexpr, D: tl.constexpr, M: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    part, column = tl.arange(0, COUNT), tl.arange(0, D)
    there = (row < rows)[:, None] & (part < count)[None, :]
    own = tl.load(logs + part[None, :] * rows + row[:, None], there, -float("inf"))
    top = tl.max(own, 1)
    top = tl.where(top == -float("inf"), 0.0, top)
    total = tl.sum(tl.exp(own - top[:, None]), 1)
    sums = tl.zeros((M, D), tl.float32)
    for p in range(count):
        weight = tl.exp(tl.load(logs + p * rows + row, row < rows, -float("inf")) - top)
        # What a part without weight holds does not count, whatever it is.
        counts = (weight > 0)[:, None] & (column < width)[None, :]
        at = (tl.cast(p, tl.int64) * rows + row)[:, None] * width + column[None, :]
        sums += weight[:, None] * tl.load(parts + at, counts, 0.0).to(tl.float32)
    share = tl.where(total > 0, 1 / total, 0.0)
    mine = row.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(o + mine, (sums * share[:, None]).to(o.dtype.element_ty), (row < rows)[:, None] & (column < width)[None, :])
    tl.store(lse + row, top + tl.log(total), row < rows)


def merge(parts, logs, o, lse, size, warps):
    """Of parts [P, ..., D] and their logarithms [P, ...]."""
    count, rows, width = parts.shape[0], o.numel() // o.shape[-1], o.shape[-1]
    merge_kernel[(triton.cdiv(rows, size),)](parts, logs, o, lse, rows, count, width, COUNT=triton.next_power_of_2(count),
                                             D=triton.next_power_of_2(width), M=size, num_warps=warps)  # fmt: skip


@peer(TRITON, "attention_merge")
def _(c):
    parts, logs = c["partial_o"], c["partial_lse"]
    o, lse = torch.empty(parts.shape[1:], device=DEVICE, dtype=parts.dtype), torch.empty(logs.shape[1:], device=DEVICE)
    return works(lambda size, warps: merge(parts, logs, o, lse, size, warps), (o, lse), (4, 4), (16, 4), (32, 8))


@triton.jit
def page_steps(mine, k_cache, v_cache, table, o, top, total, limit, first, end, head, heads, base2, PAGE: tl.constexpr,
               D: tl.constexpr, N: tl.constexpr):  # fmt: skip
    """Keys first to end - 1 of one sequence, for rows that see those below `limit`."""
    width = tl.arange(0, D)
    for start in range(first, end, N):
        j = start + tl.arange(0, N)
        block = tl.load(table + j // PAGE, j < end, 0).to(tl.int64)
        at = ((block * heads + head) * PAGE + j % PAGE)[:, None] * D + width[None, :]
        there = (j < end)[:, None]
        s = tl.dot(mine, tl.trans(tl.load(k_cache + at, there, 0.0))) * base2
        s = tl.where(j[None, :] < tl.minimum(limit, end)[:, None], s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        # A row that has seen nothing yet has no weights.
        p = tl.where(s > -1e29, tl.exp2(s - new[:, None]), 0.0)
        grow = tl.exp2(top - new)
        total = total * grow + tl.sum(p, 1)
        o = tl.dot(p.to(v_cache.dtype.element_ty), tl.load(v_cache + at, there, 0.0), o * grow[:, None])
        top = new
    return o, top, total


@triton.jit
def decode_kernel(q, k_cache, v_cache, lengths, tables, parts, logs, sequences, heads, group, most, base2, PAGE: tl.constexpr,
                  D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, SPLITS: tl.constexpr):  # fmt: skip
    # One token of a sequence, all heads that share one of the cache, and one part of the keys.
    sequence, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + sequence)
    share = tl.cdiv(tl.cdiv(length, SPLITS), N) * N
    first = tl.minimum(part * share, length)
    end = tl.minimum(first + share, length)
    row, width = tl.arange(0, M), tl.arange(0, D)
    there = row < group
    own = sequence * heads * group + head * group + row
    mine = tl.load(q + own[:, None] * D + width[None, :], there[:, None], 0.0)
    o, total = tl.zeros((M, D), tl.float32), tl.zeros((M,), tl.float32)
    top, limit = tl.full((M,), -1e30, tl.float32), tl.full((M,), 2147483647, tl.int32)
    o, top, total = page_steps(mine, k_cache, v_cache, tables + sequence * most, o, top, total, limit, first, end, head, heads,
                               base2, PAGE, D, N)  # fmt: skip
    at = part * sequences * heads * group + own
    tl.store(parts + at[:, None] * D + width[None, :], o / tl.maximum(total, 1e-30)[:, None], there[:, None])
    tl.store(logs + at, tl.where(total > 0, (top + tl.log2(total)) * 0.6931471805599453, -float("inf")), there)


@triton.jit
def prefill_kernel(q, k_cache, v_cache, lengths, tables, ends, o, lse, heads, group, most, base2, PAGE: tl.constexpr,
                   D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    sequence, head = tl.program_id(1) // (heads * group), tl.program_id(1) % (heads * group)
    first = tl.load(ends + sequence)
    count, length = tl.load(ends + sequence + 1) - first, tl.load(lengths + sequence)
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    if block * M < count:
        row, width = block * M + tl.arange(0, M), tl.arange(0, D)
        there = row < count
        at = ((first + row).to(tl.int64) * heads * group + head)[:, None] * D + width[None, :]
        mine = tl.load(q + at, there[:, None], 0.0)
        result, total = tl.zeros((M, D), tl.float32), tl.zeros((M,), tl.float32)
        top = tl.full((M,), -1e30, tl.float32)
        limit = tl.minimum(row + length - count + 1, length) if CAUSAL else length + 0 * row
        end = tl.minimum(length, tl.maximum(0, (block + 1) * M + length - count)) if CAUSAL else length
        result, top, total = page_steps(mine, k_cache, v_cache, tables + sequence * most, result, top, total, limit, 0, end,
                                        head // group, heads, base2, PAGE, D, N)  # fmt: skip
        tl.store(o + at, (result / tl.maximum(total, 1e-30)[:, None]).to(o.dtype.element_ty), there[:, None])
        own = lse + (first + row) * heads * group + head
        tl.store(own, tl.where(total > 0, (top + tl.log2(total)) * 0.6931471805599453, -float("inf")), there)


def page_arguments(c):
    plain_cache(c)
    q, k_cache = c["q"], c["k_cache"]
    require_power_of_two(c, q.shape[2])
    c.require(q.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
    tensors = [q, k_cache, c["v_cache"], c["context_lens"], c["block_tables"]]
    heads = k_cache.shape[1]
    scale = c.number("scale", 1 / math.sqrt(q.shape[2])) * 1.4426950408889634
    return tensors, [heads, q.shape[1] // heads, c["block_tables"].shape[1], scale], dict(PAGE=k_cache.shape[2], D=q.shape[2])


@peer(TRITON, "paged_decode")
def _(c):
    tensors, numbers, constants = page_arguments(c)
    q, (heads, group) = c["q"], numbers[:2]
    sequences, most = q.shape[0], 16
    parts = torch.empty((most, *q.shape), device=DEVICE, dtype=torch.float32)
    logs = torch.empty((most, *q.shape[:2]), device=DEVICE, dtype=torch.float32)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:2], device=DEVICE, dtype=torch.float32)

    def launch(splits, keys, warps, stages):
        decode_kernel[(sequences, heads, splits)](*tensors, parts, logs, sequences, *numbers, **constants, SPLITS=splits, N=keys,
                                                  M=max(16, triton.next_power_of_2(group)), num_warps=warps, num_stages=stages)  # fmt: skip
        merge(parts[:splits], logs[:splits], o, lse, 4, 4)

    return works(launch, (o, lse), (4, 64, 4, 3), (8, 64, 4, 3), (8, 128, 4, 2), (16, 64, 4, 3))


@peer(TRITON, "paged_prefill")
def _(c):
    tensors, numbers, constants = page_arguments(c)
    q, ends = c["q"], c["cu_seqlens_q"]
    o, lse, longest = torch.empty_like(q), torch.empty(q.shape[:2], device=DEVICE, dtype=torch.float32), int(ends.diff().max())

    def launch(rows, keys, warps, stages):
        grid = (triton.cdiv(longest, rows), (ends.numel() - 1) * q.shape[1])
        prefill_kernel[grid](*tensors, ends, o, lse, *numbers, **constants, M=rows, N=keys, CAUSAL=c.choice("causal", "true") == "true",
                             num_warps=warps, num_stages=stages)  # fmt: skip

    return works(launch, (o, lse), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3))
