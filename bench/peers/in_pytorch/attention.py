# Attention: whole, packed, paged, over blocks, as a merge of parts.
import functools
import math

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from case import DEVICE, PYTORCH, peer


def score_rules(c, queries, keys):
    """A mask [Sq, Sk] of positions, or None."""
    left, right = c.integer("window_left", -1), 0 if c.flag("causal") else c.integer("window_right", -1)
    if left < 0 and right < 0:
        return None
    distance = torch.arange(keys, device=DEVICE) - torch.arange(queries, device=DEVICE)[:, None] - (keys - queries)
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    return seen


@peer(PYTORCH, "attention", "ring_attention")
def _(c):
    c.require(c.number("dropout") == 0, "dropout was not asked of it")
    c.require(c["q"].dim() == 4, "no packed sequences")
    swapped, cap = (c.choice("layout") == "bshd"), c.number("softcap")
    scale = c.number("scale", 1 / math.sqrt(c["q"].shape[-1]))
    queries, keys = (c[name].shape[1 if swapped else 2] for name in "qk")
    extras = c.given("bias", "mask", "sinks")
    plain_causal = c.flag("causal") and c.integer("window_left", -1) < 0
    seen = None if plain_causal and queries == keys and not extras and not cap else score_rules(c, queries, keys)

    def attend(q, k, v, *rest):
        given = dict(zip(extras, rest))
        if swapped:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if cap or "sinks" in given:
            o = spelled_out(q, k, v, given)
        else:
            bias = given.get("bias")
            for mask in (seen, given.get("mask")):
                if mask is not None:
                    hidden = torch.zeros((), dtype=q.dtype, device=q.device).masked_fill(~mask, -math.inf)
                    bias = hidden if bias is None else bias + hidden
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale, enable_gqa=q.shape[1] != k.shape[1],
                                               is_causal=plain_causal and bias is None)  # fmt: skip
        return o.transpose(1, 2) if swapped else o

    def spelled_out(q, k, v, given):
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        s = (q @ k.mT).float() * scale
        if cap:
            s = cap * torch.tanh(s / cap)
        if "bias" in given:
            s = s + given["bias"]
        for mask in (seen, given.get("mask")):
            if mask is not None:
                s = s.masked_fill(~mask, -math.inf)
        if "sinks" in given:
            sinks = given["sinks"][None, :, None, :].expand(*s.shape[:1], s.shape[1], s.shape[2], -1)
            return (torch.cat([s, sinks], -1).softmax(-1)[..., : s.shape[-1]].to(v.dtype)) @ v
        return s.softmax(-1).to(v.dtype) @ v

    return attend, ["q", "k", "v", *extras]


def packed_attention(q, k, v, ends, longest, scale, window):
    """Of sequences behind one another, whose last query stands at the last key."""
    if DEVICE == "cuda":
        return varlen_attn(q, k, v, *ends, *longest, scale=scale, window_size=window)
    # On a CPU sequence after sequence: there is nothing else.
    results, (left, right), group = [], window, q.shape[1] // k.shape[1]
    for i in range(len(ends[0]) - 1):
        (first, last), (begin, end) = ends[0][i : i + 2].tolist(), ends[1][i : i + 2].tolist()
        own, keys, values = (x.transpose(0, 1) for x in (q[first:last], k[begin:end], v[begin:end]))
        keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
        place = torch.arange(last - first)[:, None] + (end - begin) - (last - first)
        seen = torch.ones(last - first, end - begin, dtype=torch.bool)
        seen &= torch.arange(end - begin) >= (place - left if left >= 0 else 0)
        seen &= torch.arange(end - begin) <= (place + right if right >= 0 else end)
        s = (own.float() @ keys.float().mT * scale).masked_fill(~seen, -math.inf)
        results.append((s.softmax(-1).nan_to_num(0) @ values.float()).to(q.dtype).transpose(0, 1))
    return torch.cat(results)


def plain_scores(c):
    return not c.given("bias", "mask", "sinks") and c.number("softcap") == c.number("dropout") == 0


@peer(PYTORCH, "attention_varlen")
def _(c):
    c.require(plain_scores(c), "plain attention only")
    scale, ends = c.number("scale", 1 / math.sqrt(c["q"].shape[-1])), [c["cu_seqlens_" + name] for name in "qk"]
    longest = [int(end.diff().max()) for end in ends]
    window = (c.integer("window_left", -1), 0 if c.flag("causal") else c.integer("window_right", -1))
    return lambda q, k, v: packed_attention(q, k, v, ends, longest, scale, window), ["q", "k", "v"]


def plain_cache(c):
    c.require(c["k_cache"].dtype == c["q"].dtype, "no quantised caches")
    c.require(plain_scores(c) and c.integer("window_left", -1) < 0, "plain attention only")


@peer(PYTORCH, "paged_decode")
def _(c):
    plain_cache(c)
    scale, tables = c.number("scale", 1 / math.sqrt(c["q"].shape[-1])), c["block_tables"].long()
    seen = torch.arange(tables.shape[1] * c["k_cache"].shape[2], device=DEVICE) < c["context_lens"][:, None]

    def attend(q, k_cache, v_cache):
        k, v = (cache[tables].transpose(1, 2).flatten(2, 3) for cache in (k_cache, v_cache))
        o = F.scaled_dot_product_attention(q[:, :, None], k, v, attn_mask=seen[:, None, None], scale=scale, enable_gqa=True)
        return o[:, :, 0]

    return attend, ["q", "k_cache", "v_cache"]


@peer(PYTORCH, "paged_prefill")
def _(c):
    plain_cache(c)
    c.remark("gathers the pages' keys and values, then takes varlen_attn")
    scale, page = c.number("scale", 1 / math.sqrt(c["q"].shape[-1])), c["k_cache"].shape[2]
    lengths = c["context_lens"].long()
    # The block and the place in it of each key, sequence after sequence.
    places = [torch.arange(int(length), device=DEVICE) for length in lengths]
    blocks = torch.cat([c["block_tables"][s, place // page].long() for s, place in enumerate(places)])
    within = torch.cat(places) % page
    ends = [c["cu_seqlens_q"], F.pad(lengths.cumsum(0), (1, 0)).int()]
    longest = [int(end.diff().max()) for end in ends]
    window = (-1, 0 if c.choice("causal", "true") == "true" else -1)

    def attend(q, k_cache, v_cache):
        k, v = (cache[blocks, :, within] for cache in (k_cache, v_cache))
        return packed_attention(q, k, v, ends, longest, scale, window)

    return attend, ["q", "k_cache", "v_cache"]


@peer(PYTORCH, "attention_cached")
def _(c):
    plain_cache(c)
    c.require(not c.given("cu_seqlens_q") and c.integer("window_right", -1) < 0 and c.integer("chunk", 0) == 0, "as many tokens of each sequence only")
    c.remark("gathers the pages' keys and values")
    scale, tables, lengths = c.number("scale", 1 / math.sqrt(c["q"].shape[-1])), c["block_tables"].long(), c["context_lens"].long()
    sequences, tokens = len(lengths), c["q"].shape[0] // len(lengths)
    places = torch.arange(tables.shape[1] * c["k_cache"].shape[2], device=DEVICE)
    own = lengths[:, None] - tokens + torch.arange(tokens, device=DEVICE)
    seen = (places < lengths[:, None])[:, None, :].expand(-1, tokens, -1)
    if c.choice("causal", "true") == "true":
        seen = seen & (places <= own[..., None])
    if c.given("tree"):
        node = places - (lengths - tokens)[:, None]
        rows = c["tree"].long().view(sequences, tokens, -1)
        words = rows.gather(2, (node // 32).clamp(0, rows.shape[2] - 1)[:, None].expand(-1, tokens, -1))
        seen = seen & ((node < 0)[:, None] | (words >> (node % 32)[:, None] & 1).bool())
    empty = ~seen.any(-1)[:, None, :, None]

    def attend(q, k_cache, v_cache):
        k, v = (cache[tables].transpose(1, 2).flatten(2, 3) for cache in (k_cache, v_cache))
        rows = q.view(sequences, tokens, *q.shape[1:]).transpose(1, 2)
        o = F.scaled_dot_product_attention(rows, k, v, attn_mask=seen[:, None], scale=scale, enable_gqa=True)
        return o.masked_fill(empty, 0).transpose(1, 2).reshape(q.shape)

    return attend, ["q", "k_cache", "v_cache"]


def latent_rows(c):
    """The width of values, and the scale."""
    c.require(c["cache"].dtype == c["q"].dtype and not c.given("sinks"), "plain rows only")
    return c.integer("latent", c["q"].shape[-1] - 64), c.number("scale", 0.0722)


@peer(PYTORCH, "latent_decode")
def _(c):
    latent, scale = latent_rows(c)
    c.require(not c.given("cu_seqlens_q"), "as many tokens of each sequence only")
    c.remark("gathers the pages' rows, then two products and a softmax")
    tables, lengths = c["block_tables"].long(), c["context_lens"].long()
    sequences, tokens = len(lengths), c["q"].shape[0] // len(lengths)
    places = torch.arange(tables.shape[1] * c["cache"].shape[1], device=DEVICE)
    last = lengths[:, None] if c.choice("causal", "true") != "true" else lengths[:, None] - tokens + 1 + torch.arange(tokens, device=DEVICE)
    seen = (places < torch.minimum(last, lengths[:, None])[..., None]).expand(-1, tokens, -1)[:, :, None]
    empty = ~seen.any(-1, keepdim=True)

    def attend(q, cache):
        rows = cache[tables].flatten(1, 2)
        queries = q.view(sequences, tokens, *q.shape[1:])
        s = (queries.flatten(1, 2) @ rows.mT).view(sequences, tokens, q.shape[1], -1).float() * scale
        p = s.masked_fill(~seen, -math.inf).softmax(-1).masked_fill(empty, 0).to(q.dtype)
        return (p.flatten(1, 2) @ rows[..., :latent]).view(*q.shape[:2], latent)

    return attend, ["q", "cache"]


@peer(PYTORCH, "latent_sparse")
def _(c):
    latent, scale = latent_rows(c)
    c.remark("gathers the rows, then two products and a softmax")
    indices = c["indices"].long()
    seen = indices >= 0
    if c.given("lengths"):
        seen = seen & (torch.arange(indices.shape[1], device=DEVICE) < c["lengths"][:, None])
    chosen, empty = indices.clamp(min=0), ~seen.any(-1)[:, None, None]

    def attend(q, cache):
        rows = cache.flatten(0, 1)[chosen]
        s = (q @ rows.mT).float() * scale
        p = s.masked_fill(~seen[:, None], -math.inf).softmax(-1).masked_fill(empty, 0).to(q.dtype)
        return p @ rows[..., :latent]

    return attend, ["q", "cache"]


@peer(PYTORCH, "attention_merge")
def _(c):
    def merge(partial_o, partial_lse):
        lse = torch.logsumexp(partial_lse, 0)
        weights = torch.exp(partial_lse - lse)
        return (partial_o * weights[..., None]).sum(0).to(partial_o.dtype), lse

    return merge, ["partial_o", "partial_lse"]


def present_blocks(mask, shown, sizes, queries, keys):
    """A mask of blocks as FlexAttention has them: for each block of queries those of keys, the present ones first."""
    order = torch.argsort(mask.int(), dim=-1, descending=True, stable=True).int()
    counts = mask.sum(-1).int()
    nothing = torch.zeros_like(counts), torch.zeros_like(order)
    return BlockMask.from_kv_blocks(*nothing, counts, order, BLOCK_SIZE=sizes, mask_mod=shown, seq_lengths=(queries, keys))


@peer(PYTORCH, "block_sparse_attention")
def _(c):
    positions = c.flag("causal") or c.integer("window_left", -1) >= 0 or c.integer("window_right", -1) >= 0
    c.require(c.choice("layout", "bhsd") == "bhsd" and plain_scores(c) and not positions, "plain masks of blocks only")
    scale = c.number("scale", 1 / math.sqrt(c["q"].shape[-1]))
    sizes = c.integer("block_q", 64), c.integer("block_k", 64)
    (batches, heads, queries), keys = c["q"].shape[:3], c["k"].shape[2]
    blocks = c["block_mask"].expand(batches, heads, -1, -1)
    if not c.compiled:
        c.remark("masks, and skips nothing")
        seen = blocks.repeat_interleave(sizes[0], 2)[:, :, :queries].repeat_interleave(sizes[1], 3)[..., :keys]
        # A row without keys is nan in PyTorch, and 0 here.
        empty = ~seen.any(-1, keepdim=True)
        hidden = torch.zeros(seen.shape, dtype=c["q"].dtype, device=DEVICE).masked_fill(~(seen | empty), -math.inf)

        def attend(q, k, v):
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
            return o.masked_fill(empty, 0)

        return attend, ["q", "k", "v"]

    def shown(b, h, i, j):
        return blocks[b, h, i // sizes[0], j // sizes[1]]

    if c.is_backward():
        c.require(DEVICE == "cuda", "FlexAttention has gradients on a GPU only")
        # Its gradients' tiles are 128 wide and do not divide smaller blocks.
        c.remark("FlexAttention over blocks of 128, masked by the smaller ones")
        mask, options = create_block_mask(shown, batches, heads, queries, keys, device=DEVICE), None
    else:
        c.remark("FlexAttention")
        mask, options = present_blocks(blocks, shown, sizes, queries, keys), {"BLOCK_M": sizes[0], "BLOCK_N": sizes[1]}
    flex = functools.partial(flex_attention, block_mask=mask, scale=scale, kernel_options=options)
    return lambda q, k, v: flex(q, k, v, enable_gqa=q.shape[1] != k.shape[1]), ["q", "k", "v"]
