# The recurrent kernels' peers in Triton are those of fla-core, which models with such layers run: its functions as they
# are called there. Without the package these rows have none.
import importlib

import torch
import torch.nn.functional as F

from case import DEVICE, TRITON, NoPeer, peer
from in_pytorch.recurrent import at_all, gate, places, rule, scale

RWKV7_BOUND = -0.6065306597126334  # of the logarithms of the model's decays, -e^(-1/2)


def fla(c, module, name):
    """A function of fla-core."""
    c.require(DEVICE == "cuda", "fla-core needs a GPU")
    try:
        function = getattr(importlib.import_module("fla." + module), name)
        version = importlib.import_module("fla").__version__
    except (ImportError, AttributeError) as error:
        raise NoPeer(f"fla-core has no {name} to import: {error}") from error
    c.remark(f"fla-core {version}")
    return function


def gate_options(c, given):
    """As the functions for delta rules take the gate and the strengths; theirs are never left out."""
    c.require(rule(c) == "delta", "fla-core has delta rules; its Mamba-2 is the package mamba-ssm")
    c.require(not c.given("D", "z"), "fla-core has no D and no z here")
    c.require(not {"dt_min", "dt_max"} & c.options.keys(), "fla-core's softplus has no limits")
    c.require(c.flag("beta_sigmoid") or not c.flag("allow_negative"), "fla-core's beta is negative of a sigmoid only")
    options = {"scale": scale(c), "output_final_state": True, "use_qk_l2norm_in_kernel": c.flag("qk_l2norm"),
               "use_beta_sigmoid_in_kernel": c.flag("beta_sigmoid"), "allow_neg_eigval": c.flag("allow_negative")}  # fmt: skip
    if gate(c) != "none":
        heads = given["v"].shape[2]
        options.update(use_gate_in_kernel=True, A_log=given.get("A_log", torch.zeros(heads, device=DEVICE)))
        if "dt_bias" in given:
            options["dt_bias"] = given["dt_bias"].flatten()
    return options


def strength(given):
    return given["beta"] if "beta" in given else torch.ones(given["v"].shape[:3], device=DEVICE)


def delta_rule(c):
    c.require(gate(c) != "sigmoid", "its gate is softplus")
    c.require("g" in c, "fla-core's has decays")
    function = fla(c, "ops.gated_delta_rule", "chunk_gated_delta_rule")
    return [lambda given: function(given["q"], given["k"], given["v"], given["g"], strength(given), **gate_options(c, given),
                                   initial_state=given.get("initial_state"),
                                   state_v_first=c.choice("state_layout", "kv") == "vk")]  # fmt: skip


def kda(c):
    c.require("g" in c, "fla-core's has decays")
    function, kind = fla(c, "ops.kda", "chunk_kda"), gate(c)
    bound = c.number("lower_bound", -5)
    c.require(kind != "sigmoid" or -5 <= bound < 0, "its bound is from -5 to 0")
    # Bounded decays let it multiply matrices where it otherwise takes one pair of steps after the other.
    choices = [{}]
    if kind == "sigmoid":
        choices = [{"safe_gate": True, "lower_bound": bound}]
    elif kind == "none" and c["g"].min() >= -5:
        choices.append({"safe_gate": True})
    return [lambda given, choice=choice: function(
                given["q"], given["k"], given["v"], given["g"], strength(given), **gate_options(c, given),
                initial_state=given.get("initial_state"), state_v_first=c.choice("state_layout", "kv") == "vk", **choice)
            for choice in choices]  # fmt: skip


def require_plain_rwkv7(c):
    c.require(c["q"].shape[2] == c["v"].shape[2] and "g" in c and not c.given("beta", "D", "z"), "fla-core's is the model's own")
    c.require(gate(c) == "none" and not c.flag("qk_l2norm"), "fla-core's has neither gate nor norms")


def rwkv7(c):
    require_plain_rwkv7(c)
    c.require(c.choice("state_layout", "kv") == "kv", "its states are [K, V]")
    function = fla(c, "ops.rwkv7", "chunk_rwkv7")
    choices = [{}]
    if c["g"].min() >= RWKV7_BOUND:
        choices.append({"safe_gate": True, "lower_bound": RWKV7_BOUND, "chunk_size": 64})
    return [lambda given, choice=choice: function(
                r=given["q"], w=given["g"], k=given["k"], v=given["v"], a=given["a"], b=given["b"], scale=scale(c),
                initial_state=given.get("initial_state"), output_final_state=True, **choice)
            for choice in choices]  # fmt: skip


def causal_conv1d(c):
    function = fla(c, "modules.causal_conv1d", "causal_conv1d")
    activation = None if c.choice("activation", "silu") == "none" else "silu"

    def convolve(given):
        state = given.get("initial_state")  # it keeps one number more, which it does not read
        y, last = function(given["x"], given["w"], bias=given.get("b"), activation=activation, output_final_state=True,
                           initial_state=None if state is None else F.pad(state, (1, 0)))  # fmt: skip
        return y, last[..., 1:]

    return [convolve]


FORWARD = {"delta_rule": delta_rule, "kda": kda, "rwkv7": rwkv7, "causal_conv1d": causal_conv1d}


@peer(TRITON, *FORWARD)
def _(c):
    c.require("cu_seqlens" not in c, "no packed sequences")

    def run(function):
        with torch.no_grad():
            return function(c.inputs)

    return [lambda function=function: run(function) for function in FORWARD[c.kernel](c)]


@peer(TRITON, *(name + "_backward" for name in FORWARD))
def _(c):
    """By autograd, with what the forward pass keeps."""
    c.require("cu_seqlens" not in c, "no packed sequences")
    upstream = [c[name] for name in c.given("do", "dy", "dfinal_state")]
    wanted = [name.removeprefix("d") for name in c.outputs]

    def gradients(function):
        leaves = {name: x.detach().clone().requires_grad_(name in wanted) for name, x in c.inputs.items()}
        results = function(leaves)[: len(upstream)]
        return lambda: torch.autograd.grad(results, [leaves[name] for name in wanted], upstream, retain_graph=True)

    return [gradients(function) for function in FORWARD[c.kernel.removesuffix("_backward")](c)]


def of_sequences(c, names):
    """The inputs of the sequences that have rows of the pool, and these rows in the order of the sequences."""
    c.require(not c.flag("keep_states"), "it keeps no states of each step")
    which, rows = places(c, "state")
    c.remark("without a pool: states lie in the order of the sequences")
    return {name: c[name][which].contiguous() for name in c.given(*names)}, c["state"][rows], which


def stepping(c, function, which):
    """The result of all sequences; new states are made, and lie elsewhere."""

    def run():
        with torch.no_grad():
            return at_all(function()[0], which, c["v"].shape[0])

    return [run]


@peer(TRITON, "delta_step")
def _(c):
    c.require(gate(c) != "sigmoid", "its gate is softplus")
    function = fla(c, "ops.gated_delta_rule", "fused_recurrent_gated_delta_rule")
    given, state, which = of_sequences(c, ("q", "k", "v", "beta", "g", "gk"))
    given.update({name: c[name] for name in c.given("A_log", "dt_bias")})
    if gate(c) != "none" and "g" not in given:
        given["g"] = torch.zeros(given["v"].shape[:3], device=DEVICE)
    options, beta = gate_options(c, given), strength(given)
    is_stored_vk = c.choice("state_layout", "vk") == "vk"
    return stepping(c, lambda: function(
        given["q"], given["k"], given["v"], g=given.get("g"), gk=given.get("gk"), beta=beta, **options, initial_state=state,
        state_v_first=is_stored_vk), which)  # fmt: skip


@peer(TRITON, "rwkv7_step")
def _(c):
    require_plain_rwkv7(c)
    function = fla(c, "ops.rwkv7", "fused_recurrent_rwkv7")
    given, state, which = of_sequences(c, ("q", "k", "v", "a", "b", "g"))
    if c.choice("state_layout", "vk") == "vk":
        state = state.mT.contiguous()
    return stepping(c, lambda: function(
        r=given["q"], w=given["g"], k=given["k"], v=given["v"], a=given["a"], b=given["b"], scale=scale(c),
        initial_state=state, output_final_state=True), which)  # fmt: skip


@peer(TRITON, "causal_conv1d_update")
def _(c):
    c.require("cu_seqlens" not in c and c["x"].shape[1] == 1, "it takes one step of each sequence")
    function = fla(c, "modules.causal_conv1d", "causal_conv1d_update")
    which, rows = places(c, "state")
    c.remark("without a pool: states lie in the order of the sequences")
    x, state = c["x"][which].contiguous(), F.pad(c["state"][rows], (1, 0))
    activation = None if c.choice("activation", "silu") == "none" else "silu"

    def run():
        with torch.no_grad():
            y, _ = function(x, state, weight=c["w"], bias=c.inputs.get("b"), activation=activation)
            return at_all(y, which, c["x"].shape[0])

    return [run]
