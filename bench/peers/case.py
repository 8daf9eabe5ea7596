# One call to compare at: its inputs, made up as `sectile bench kernels` describes them, and its options.
import math
import os

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

DTYPES = {"bool": torch.bool, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
for letter, family, sizes in (("f", "float", (16, 32, 64)), ("i", "int", (8, 16, 32, 64)), ("u", "uint", (8, 16, 32, 64))):
    DTYPES.update({f"{letter}{size}": getattr(torch, f"{family}{size}") for size in sizes})

# For a kernel's name a function from a case to what computes the same: PYTORCH's give a function and the
# names of its tensors, TRITON's a list of things to call, of which the fastest counts. Results are the
# call's first outputs, in their order.
PYTORCH, TRITON = {}, {}


def peer(table, *names):
    def register(function):
        table.update(dict.fromkeys(names, function))
        return function

    return register


class NoPeer(Exception):
    """This call has no counterpart there; the message says why, if it says anything."""


class Case:
    """One row: its input tensors by name, its options and extents."""

    def __init__(self, row, compiled=False):
        self.kernel, self.options, self.extents = row["kernel"], row["options"], row["extents"]
        self.compiled = compiled  # what is asked for goes through torch.compile
        self.remarks = []
        self.outputs = {a["name"]: a for a in row["arguments"] if a["output"]}
        torch.manual_seed(0)
        self.inputs = {a["name"]: make(a) for a in row["arguments"] if not a["output"]}
        if self.kernel.removesuffix("_backward") in ("delta_rule", "kda", "rwkv7", "delta_step", "rwkv7_step"):
            self.bound_states()

    def __getitem__(self, name):
        return self.inputs[name]

    def __contains__(self, name):
        return name in self.inputs

    def flag(self, name):
        return self.options.get(name) == "true"

    def number(self, name, initial=0.0):
        return float(self.options.get(name, initial))

    def integer(self, name, initial=0):
        return int(self.options.get(name, initial))

    def choice(self, name, initial=""):
        return self.options.get(name, initial)

    def given(self, *names):
        """Those of the names that are inputs of this call."""
        return [name for name in names if name in self.inputs]

    def require(self, holds, why):
        if not holds:
            raise NoPeer(why)

    def remark(self, text):
        """Said beside the time."""
        self.remarks.append(text)

    def bound_states(self):
        """What recurrences multiply their states by, as in their models: made up freely, states grow without bound."""

        def change(name, function):
            if name in self:
                self.inputs[name] = function(self[name].float()).to(self[name].dtype)

        for name in ("k", "a"):
            change(name, lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6))
        if not self.flag("beta_sigmoid"):
            change("beta", torch.sigmoid)
        for name in ("A_log", "dt_bias"):
            change(name, torch.tanh)
        if self.kernel.startswith("rwkv7"):
            change("b", lambda b: -self["a"].float() * torch.sigmoid(b))
            if self.choice("gate", "none") == "none":
                change("g", lambda g: -math.exp(-0.5) * torch.sigmoid(g))

    def is_backward(self):
        return self.kernel.endswith("_backward")


def make(argument):
    dtype, shape = DTYPES[argument["dtype"]], argument["shape"]
    if dtype.is_floating_point:
        values = torch.randn(shape, device=DEVICE, dtype=torch.float32)
        if argument["name"] in ("g", "gk"):  # logarithms of decays
            values = -0.5 * values.abs()
        if argument["name"].endswith("probs"):
            values = values.softmax(-1)
        return values.to(dtype)
    if "values" in argument:
        return torch.tensor(argument["values"], device=DEVICE).reshape(shape).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, device=DEVICE) < argument["mean"]
    least, most = 0 if argument["name"] == "targets" else argument.get("least", 0), argument.get("most", 0)
    return torch.randint(least, most + 1, shape, device=DEVICE).to(dtype)
