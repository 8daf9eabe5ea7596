# Over time: recurrent cells, the gated linear recurrence, means.
import math

import torch
import torch.nn.functional as F

from case import DEVICE, PYTORCH, peer


@peer(PYTORCH, "rnn", "gru", "lstm")
def _(c):
    """The layers of torch.nn, which are cuDNN's on a GPU."""
    cell = c.kernel.removesuffix("_backward")
    stacked = c["w_ih"].dim() == 3
    directions = c["w_ih"].shape[0] if stacked else 1
    first, biased = c.flag("batch_first"), bool(c.given("b_ih", "b_hh"))
    function = getattr(torch._VF, "rnn_" + c.choice("nonlinearity", "tanh") if cell == "rnn" else cell)
    names = ["w_ih", "w_hh", "b_ih", "b_hh"] if biased else ["w_ih", "w_hh"]
    weights, states = c.given(*names), c.given("h0", "c0")
    train, hidden = c.is_backward(), c["w_hh"].shape[-1]
    shape = (directions, c["x"].shape[0 if first else 1], hidden)
    gates, kind = c["w_ih"].shape[-2], {"device": DEVICE, "dtype": c["x"].dtype}

    def parameters(given):
        """Those of each direction behind one another; a bias that is not there is 0."""
        none = torch.zeros(directions, gates, **kind)
        parts = [(given[name] if stacked else given[name][None]) if name in given else none for name in names]
        return [part[d] for d in range(directions) for part in parts]

    flat = None
    if not train and DEVICE == "cuda":
        # As the layers keep them: in one piece, so that no call copies them.
        layer = getattr(torch.nn, cell.upper())(c["x"].shape[-1], hidden, bias=biased, bidirectional=directions == 2, **kind)
        with torch.no_grad():
            for own, value in zip(layer._flat_weights, parameters(c.inputs)):
                own.copy_(value)
        layer.flatten_parameters()
        flat = layer._flat_weights

    def run(x, *rest):
        given = dict(zip(weights + states, rest))
        begin = [given[name].reshape(shape) if name in given else torch.zeros(shape, **kind) for name in ("h0", "c0")]
        begin = tuple(begin) if cell == "lstm" else begin[0]
        return tuple(function(x, begin, flat or parameters(given), biased, 1, 0.0, train, directions == 2, first))

    if c.compiled:
        c.remark("torch.compile leaves cuDNN's layers as they are")
        run = torch.compiler.disable(run)
    return lambda *tensors: run(*tensors), ["x", *weights, *states]


@peer(PYTORCH, "linear_recurrence")
def _(c):
    """By chunks: scores within each, and the state before it as a weighted sum of what the earlier ones add."""
    c.require("gk" not in c and not c.flag("reverse"), "decays of channels and the reverse order were not asked of it")
    extras = c.given("g", "initial_state")
    (_, _, length, width), chunk = c["q"].shape, 64
    chunk = chunk if length % chunk == 0 else length
    scale, count = c.number("scale", 1 / math.sqrt(width)), length // chunk
    c.remark(f"in chunks of {chunk} steps; a loop over the steps would be {length} times some launches")

    def decays(logs):
        """exp of the sum over the steps behind j, up to i: [..., i, j], 0 where j > i."""
        total = logs.cumsum(-1)
        apart = total[..., :, None] - total[..., None, :]
        return torch.exp(apart.masked_fill(~torch.ones(apart.shape[-2:], dtype=torch.bool, device=DEVICE).tril(), -math.inf))

    def recur(q, k, v, *rest):
        given = dict(zip(extras, rest))
        q, k, v = (x.unflatten(2, (count, chunk)) for x in (q, k, v))
        if "g" in given:
            g = given["g"].unflatten(2, (count, chunk))
            inside, whole = decays(g), g.sum(-1)
            to_end, from_start = inside[..., -1, :, None], torch.exp(g.cumsum(-1))[..., None]
            # What chunk n - 1 adds reaches chunk n whole; the initial state is added before the first.
            between = decays(F.pad(whole, (1, 0)))
        else:
            inside = torch.ones(chunk, chunk, device=DEVICE).tril()
            between = torch.ones(count + 1, count + 1, device=DEVICE).tril()
            to_end = from_start = 1
        added = (k * to_end).to(k.dtype).mT @ v
        initial = given.get("initial_state")
        initial = torch.zeros_like(added[:, :, 0]) if initial is None else initial
        added = torch.cat([initial[:, :, None].float(), added.float()], 2)
        states = (between @ added.flatten(3)).unflatten(3, added.shape[3:])
        own = ((q @ k.mT).float() * inside).to(q.dtype) @ v
        o = own + (q * from_start).to(q.dtype) @ states[:, :, :-1].to(q.dtype)
        return (o * scale).flatten(2, 3).to(v.dtype), states[:, :, -1]

    return recur, ["q", "k", "v", *extras]


@peer(PYTORCH, "mean_pool")
def _(c):
    if "mask" not in c:
        return lambda x: x.mean(1), ["x"]

    def pool(x, mask):
        kept = torch.where(mask[..., None], x, 0).sum(1, dtype=torch.float32)
        return (kept / mask.sum(1, keepdim=True).clamp(min=1)).to(x.dtype)

    return pool, ["x", "mask"]


@peer(PYTORCH, "chunk_mean_pool")
def _(c):
    c.require("cu_seqlens" not in c, "no packed sequences")
    chunk = c.integer("chunk", 64)
    c.require(c["x"].shape[1] % chunk == 0, "the last chunk is shorter")
    return lambda x: x.unflatten(1, (-1, chunk)).mean(2), ["x"]
