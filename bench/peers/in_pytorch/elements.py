# Element by element: sums, activations, gates, dropout, tables.
import functools

import torch
import torch.nn.functional as F

from case import PYTORCH, NoPeer, peer


@peer(PYTORCH, "vector_add")
def _(c):
    return torch.add, ["x", "y"]


def activation_of(kind):
    known = {
        "none": lambda x: x, "relu": F.relu, "silu": F.silu, "gelu": F.gelu, "sigmoid": torch.sigmoid,
        "tanh": torch.tanh, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus,
        "relu_squared": lambda x: F.relu(x).square(),
    }  # fmt: skip
    if kind not in known:
        raise NoPeer(f"has no {kind}")
    return known[kind]


@peer(PYTORCH, "activation")
def _(c):
    return activation_of(c.choice("kind", "gelu")), ["x"]


def gate_of(c):
    """The activation of swiglu or geglu, forward or backward."""
    return "silu" if c.kernel.startswith("swiglu") else "gelu_tanh" if c.choice("approximate") == "tanh" else "gelu"


@peer(PYTORCH, "swiglu", "geglu")
def _(c):
    f = activation_of(gate_of(c))
    return lambda gate, up: f(gate) * up, ["gate", "up"]


@peer(PYTORCH, "dropout")
def _(c):
    return functools.partial(F.dropout, p=c.number("p", 0.5)), ["x"]


@peer(PYTORCH, "embedding")
def _(c):
    return F.embedding, ["indices", "table"]
