# Gradients of operations whose gradients are operations of the same kind, so that the library has no X_backward for them.
# For sectile.torch and sectile.jax: formulas in operations, by `run(name, *inputs, **options)`, and in what tensors of both
# can do; `framework` has the rest.
from ._errors import UnsupportedError


class Framework:
    """What the formulas need of a framework. `floats`: dtypes that have gradients, the last of them f32; cast(tensor,
    dtype); count(tensor): 0, 1, ... for its rows, where it lies; where(condition, tensor, 0)."""

    def __init__(self, floats, cast, count, where):
        self.floats, self.float32, self.cast, self.count, self.where = floats, floats[-1], cast, count, where


class _Product:
    """matmul and batched_matmul: c = act(alpha (a b) scales + beta residual + bias)."""

    outputs = ("c",)
    results = ("a", "b", "bias", "residual")

    def __init__(self, name):
        self.name = name

    def needs(self, options):
        # With an activation, what it was applied to is computed again.
        return ("a", "b", "bias", "row_scale", "column_scale") + ("residual",) * self._acts(options)

    @staticmethod
    def _acts(options):
        return options.get("activation") not in (None, "none")

    def gradients(self, framework, run, known, by_output, options, wanted):
        a, b, bias, gradient = known["a"], known["b"], known["bias"], by_output["c"]
        if a.dtype not in framework.floats:
            raise UnsupportedError(f"sectile.{self.name} has no gradient of elements of {a.dtype}: detach its inputs")
        if self._acts(options):
            plain = {word: value for word, value in options.items() if word != "activation"}
            inputs = [known[word] for word in ("a", "b", "bias", "residual", "row_scale", "column_scale")]
            gradient = run("activation_backward", run(self.name, *inputs, **plain), gradient, kind=options["activation"])
        made = {}
        if "residual" in wanted:
            made["residual"] = _times(gradient, options.get("beta"))
        if "bias" in wanted:
            made["bias"] = _summed(framework, gradient, bias)
        product = _times(gradient, options.get("alpha"))
        if known["row_scale"] is not None:
            product = product * known["row_scale"][..., None]
        if known["column_scale"] is not None:
            product = product * known["column_scale"][..., None, :]
        product = framework.cast(product, a.dtype)
        words = {word: options[word] for word in ("precision",) if options.get(word) is not None}
        turned_a, turned_b = bool(options.get("trans_a")), bool(options.get("trans_b"))
        if "a" in wanted:
            made["a"] = _turned(run(self.name, product, b, trans_b=not turned_b, **words), turned_a)
        if "b" in wanted:
            if len(b.shape) == 3 and b.shape[0] == 1 and a.shape[0] != 1:  # one for the whole batch: all rows in one product
                rows = (a.mT if turned_a else a).reshape(-1, b.shape[2 if turned_b else 1])
                of_b = run("matmul", rows, product.reshape(-1, product.shape[2]), trans_a=True, **words)[None]
            else:
                of_b = run(self.name, a, product, trans_a=not turned_a, **words)
            made["b"] = _turned(of_b, turned_b)
        return made


class _Grouped:
    """grouped_matmul: rows of each group times the group's own matrix."""

    outputs = ("c",)
    results = ("lhs", "rhs")

    def needs(self, options):
        return ("lhs", "rhs", "group_sizes")

    def gradients(self, framework, run, known, by_output, options, wanted):
        lhs, rhs, sizes, gradient = known["lhs"], known["rhs"], known["group_sizes"], by_output["c"]
        words = {"precision": options["precision"]} if options.get("precision") is not None else {}
        turned, made = bool(options.get("trans_rhs")), {}
        if "lhs" in wanted:
            of_lhs = run("grouped_matmul", gradient, rhs, sizes, trans_rhs=not turned, **words)
            # Rows after the last group belong to no product, and are not written.
            is_there = framework.count(lhs) < sizes.sum()
            made["lhs"] = framework.where(is_there[:, None], of_lhs, 0)
        if "rhs" in wanted:
            made["rhs"] = run("grouped_matmul_drhs", lhs, sizes, gradient, trans_rhs=turned, **words)
        return made


class _LinearLoss:
    """linear_cross_entropy, whose gradients are outputs of the call itself. Of one loss for all tokens they are kept and
    multiplied; with a loss for each token the call is made again, with what each token's gradients are multiplied by."""

    outputs = ("loss",)
    results = ("x", "w", "bias")

    def needs(self, options):
        inputs = ("x", "w", "dloss", "bias")
        return inputs + (("targets", "class_weights") if options.get("reduction") == "none" else ("dx", "dw", "dbias"))

    def gradients(self, framework, run, known, by_output, options, wanted):
        if known["dloss"] is not None or options.get("gradients") is False:
            raise UnsupportedError("sectile.linear_cross_entropy has a gradient only without dloss, and with gradients=True")
        made, gradient = known, by_output["loss"]
        if options.get("reduction") == "none":
            again = run("linear_cross_entropy", known["x"], known["w"], known["targets"], gradient, known["bias"],
                        known["class_weights"], **options)
            made, gradient = {"dx": again.dx, "dw": again.dw, "dbias": again.dbias}, None
        return {name: framework.cast(made["d" + name] if gradient is None else made["d" + name] * gradient, known[name].dtype)
                for name in wanted}


class _Sum:
    """vector_add."""

    outputs = ("z",)
    results = ("x", "y")

    def needs(self, options):
        return ()

    def gradients(self, framework, run, known, by_output, options, wanted):
        return {name: by_output["z"] for name in wanted}


def _times(tensor, factor):
    return tensor if factor is None or factor == 1 else tensor * factor


def _turned(tensor, is_turned):
    return tensor.mT if is_turned else tensor


def _summed(framework, gradient, bias):
    """The gradient of what was added to each row; of a bias of the whole batch, over the batch too."""
    of_bias = gradient.sum(-2, dtype=framework.float32)
    if len(bias.shape) == 2 and bias.shape[0] == 1:
        of_bias = of_bias.sum(0)[None]
    return framework.cast(of_bias, bias.dtype)


FORMULAS = {"matmul": _Product("matmul"), "batched_matmul": _Product("batched_matmul"), "grouped_matmul": _Grouped(),
            "linear_cross_entropy": _LinearLoss(), "vector_add": _Sum()}
