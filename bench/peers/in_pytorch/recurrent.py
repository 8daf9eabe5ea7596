# Delta rules and RWKV-7, by chunks as their models' plain code has them, their steps over a pool of states, and causal
# convolutions along time.
import math

import torch
import torch.nn.functional as F

from case import DEVICE, PYTORCH, peer

CHUNK = 16  # e^-x of half the sum of a chunk's logarithms is a float
BY_CHANNEL = ("kda", "rwkv7", "rwkv7_step")


def rule(c):
    return "rwkv7" if c.kernel.startswith("rwkv7") else c.choice("rule", "delta")


def gate(c):
    return c.choice("gate") or ("softplus" if c.given("A_log", "dt_bias") or rule(c) == "mamba2" else "none")


def scale(c):
    return c.number("scale", 1 if rule(c) in ("mamba2", "rwkv7") else 1 / math.sqrt(c["k"].shape[-1]))


def numbers(c, given, v):
    """Of each step and head [B, T, Hv, K or 1]: logarithms of decays, and what values are multiplied by."""
    by_channel = c.kernel.removesuffix("_backward") in BY_CHANNEL
    each = (lambda x: x.float()) if by_channel else (lambda x: x.float()[..., None])
    logs = each(given["g"]) if "g" in given else v.new_zeros((*v.shape[:3], 1), dtype=torch.float32)
    if "dt_bias" in given:
        logs = logs + each(given["dt_bias"])
    speed = given["A_log"].exp()[:, None] if "A_log" in given else 1.0
    strength = None
    if gate(c) == "softplus":
        length = F.softplus(logs).clamp(c.number("dt_min"), c.number("dt_max", math.inf))
        strength, logs = length if rule(c) == "mamba2" else None, -speed * length
    elif gate(c) == "sigmoid":
        logs = c.number("lower_bound", -5) * torch.sigmoid(speed * logs)
    if "gk" in given:
        logs = logs + given["gk"]
    if "beta" in given:
        strength = given["beta"].float()[..., None]
        strength = torch.sigmoid(strength) if c.flag("beta_sigmoid") else strength
    if c.flag("allow_negative"):
        strength = 2.0 if strength is None else 2 * strength
    return logs, 1.0 if strength is None else strength


def spread(x, heads):
    """Of each head of the values that of the keys which it goes with."""
    return x.float().repeat_interleave(heads // x.shape[2], 2)


def keys(c, given, heads):
    """q, k, a and b, the last two only of RWKV-7."""
    rows = {name: spread(given[name], heads) for name in ("q", "k", "a", "b") if name in given}
    if c.flag("qk_l2norm"):
        for name in ("q", "k"):
            rows[name] = rows[name] * torch.rsqrt(rows[name].square().sum(-1, keepdim=True) + 1e-6)
    return rows


def gated(given, o, v):
    """o with what D and z make of it."""
    o = o + given["D"][:, None] * v.float() if "D" in given else o
    return (o * F.silu(given["z"].float()) if "z" in given else o).to(v.dtype)


def by_chunks(q, k, v, a, b, logs, state):
    """o and the last state of S <- e^logs S + b (a^T S) + k v^T, all [B, T, H, ...]; a and b may be none."""
    length = q.shape[1]

    def split(x):
        return F.pad(x.transpose(1, 2), (0, 0, 0, -length % CHUNK)).unflatten(2, (-1, CHUNK))

    q, k, v, logs = (split(x) for x in (q, k, v, logs))
    # Decays to and from the middle of the sum, so that neither overflows.
    ends = logs.cumsum(-2)
    middle = ends[..., -1:, :] / 2
    back, half = torch.exp(middle - ends), torch.exp(middle).mT
    q, k = q * torch.exp(ends - middle), k * back
    scores = (q @ k.mT).tril()
    if a is not None:
        a, b = split(a) * torch.exp(ends - logs - middle), split(b) * back
        of_reads = (q @ b.mT).tril()
        right = torch.cat([a, (a @ k.mT).tril(-1) @ v], -1)
        lower = torch.eye(CHUNK, device=DEVICE) - (a @ b.mT).tril(-1)
        of_state, own = torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True).split(
            (a.shape[-1], v.shape[-1]), -1)  # fmt: skip
    results = []
    for n in range(q.shape[2]):
        state = half[:, :, n] * state
        o, after = q[:, :, n] @ state + scores[:, :, n] @ v[:, :, n], state + k[:, :, n].mT @ v[:, :, n]
        if a is not None:
            read = of_state[:, :, n] @ state + own[:, :, n]
            o, after = o + of_reads[:, :, n] @ read, after + b[:, :, n].mT @ read
        results.append(o)
        state = half[:, :, n] * after
    return torch.cat(results, 2)[:, :, :length].transpose(1, 2), state


@peer(PYTORCH, "delta_rule", "kda", "rwkv7")
def _(c):
    c.require("cu_seqlens" not in c, "no packed sequences")
    length = c["q"].shape[1]
    c.require(length > 0 and (not c.compiled or length <= 8 * CHUNK), "torch.compile would unroll the loop over chunks")
    c.remark(f"a loop over chunks of {CHUNK} steps")
    names = c.given("q", "k", "v", "a", "b", "beta", "g", "A_log", "dt_bias", "D", "z", "initial_state")
    is_stored_vk = c.choice("state_layout", "kv") == "vk"

    def recur(*tensors):
        given = dict(zip(names, tensors))
        v = given["v"]
        (batch, _, heads, columns), width = v.shape, given["k"].shape[-1]
        logs, strength = numbers(c, given, v)
        rows = keys(c, given, heads)
        if rule(c) == "delta":
            rows.update(a=rows["k"] * logs.exp(), b=-rows["k"] * strength)
        state = given.get("initial_state")
        if state is None:
            state = torch.zeros(batch, heads, width, columns, device=DEVICE)
        elif is_stored_vk:
            state = state.mT
        o, state = by_chunks(rows["q"], rows["k"], v.float() * strength, rows.get("a"), rows.get("b"), logs, state)
        return gated(given, scale(c) * o, v), state.mT if is_stored_vk else state

    return recur, names


def places(c, pool):
    """Which sequences have a row of the pool, and which rows."""
    if "indices" not in c:
        return slice(None), torch.arange(c[next(iter(c.inputs))].shape[0], device=DEVICE)
    rows = c["indices"].long()
    rows = torch.where(rows < c[pool].shape[0], rows, -1)
    at = (rows >= 0).nonzero()[:, 0]
    return (slice(None) if at.numel() == rows.numel() else at), rows[at]


def at_all(o, which, count):
    """Those of sequences without a row are 0."""
    return o if isinstance(which, slice) else o.new_zeros(count, *o.shape[1:]).index_copy(0, which, o)


@peer(PYTORCH, "delta_step", "rwkv7_step")
def _(c):
    c.require(not c.flag("keep_states"), "states of each step were not asked of it")
    names = c.given("q", "k", "v", "a", "b", "beta", "g", "gk", "A_log", "dt_bias", "D", "z")
    which, rows_of_pool = places(c, "state")
    is_stored_kv = c.choice("state_layout", "vk") == "kv"

    def steps(pool, *tensors):
        given = {name: x if name in ("A_log", "dt_bias", "D") else x[which] for name, x in zip(names, tensors)}
        v = given["v"]
        logs, strength = numbers(c, given, v)
        rows = keys(c, given, v.shape[2])
        state = pool[rows_of_pool].float()  # [B, Hv, V, K]
        state = state.mT if is_stored_kv else state
        results = []
        for t in range(v.shape[1]):
            step = {name: x[:, t, :, :, None] for name, x in rows.items()}
            value, key, decay = v[:, t].float()[..., None], step["k"], logs[:, t, :, None].exp()
            of = strength if isinstance(strength, float) else strength[:, t, :, None]
            if rule(c) == "rwkv7":
                state = state * decay + (state @ step["a"]) @ step["b"].mT
            else:
                state = state * decay
            added = value - state @ key if rule(c) == "delta" else value
            state = state + (of * added) @ key.mT
            results.append((state @ step["q"])[..., 0])
        o = gated(given, scale(c) * torch.stack(results, 1), v)
        pool[rows_of_pool] = (state.mT if is_stored_kv else state).to(pool.dtype)
        return at_all(o, which, tensors[0].shape[0]), pool

    return steps, ["state", *names]


def convolved(c, rows, w, given):
    """Of rows [N, D, W - 1 + T], as [N, T, D]."""
    y = F.conv1d(rows, w[:, None], given.get("b"), groups=w.shape[0]).mT
    return F.silu(y) if c.choice("activation", "silu") == "silu" else y


@peer(PYTORCH, "causal_conv1d")
def _(c):
    c.require("cu_seqlens" not in c, "no packed sequences")
    extras, before = c.given("b", "initial_state"), c["w"].shape[1] - 1

    def convolve(x, w, *rest):
        given = dict(zip(extras, rest))
        rows = torch.cat([given["initial_state"], x.mT], -1) if "initial_state" in given else F.pad(x.mT, (before, 0))
        return convolved(c, rows, w, given), rows[..., rows.shape[-1] - before :]

    return convolve, ["x", "w", *extras]


@peer(PYTORCH, "causal_conv1d_update")
def _(c):
    c.require("cu_seqlens" not in c, "no packed sequences")
    extras, (which, rows_of_pool) = c.given("b"), places(c, "state")

    def update(x, w, pool, *rest):
        rows = torch.cat([pool[rows_of_pool], x[which].mT], -1)
        pool[rows_of_pool] = rows[..., rows.shape[-1] - pool.shape[-1] :]
        return at_all(convolved(c, rows, w, dict(zip(extras, rest))), which, x.shape[0]), pool

    return update, ["x", "w", "state", *extras]
