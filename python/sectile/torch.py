# sectile.torch: every operation as an operator of torch, with gradients, for torch.compile, torch.export and graphs.
"""Sectile's operations as operators of torch.

sectile.torch.attention(q, k, v) is sectile.attention(q, k, v), and besides may stand in what torch.compile, torch.export
and functorch look into: each is a registered operator, torch.ops.sectile.attention, that knows its results' shapes and
its gradients. sectile.attention has the same gradients, but cannot be compiled by torch.
"""
import torch
import torch.library

from . import _functions, _gradients, _native, _products, operations
from ._errors import UnsupportedError

_DTYPES = {
    "bool": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "f16": torch.float16,
    "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2, "f8e4m3fnuz": torch.float8_e4m3fnuz, "f8e5m2fnuz": torch.float8_e5m2fnuz,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_KINDS = {"flag": "bool", "number": "float", "integer": "int", "seed": "int"}

_library = torch.library.Library("sectile", "DEF")
_defined = {}  # functions by name


def _signed(value):
    """An option's value as an operator of torch takes it: its integers have 64 bits and a sign."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 63:
        return value - (1 << 64)
    return value


class _Operator:
    """An operation's registration. An operator has tensors and no None for results, so one that a call does not have is an
    empty tensor between the operator and the function."""

    def __init__(self, name):
        self.op = op = _functions.operation(name)
        self.plain = _functions.function(name, gradients=False)
        self.inputs = [_functions.python_name(argument["name"]) for argument in op.inputs]
        self.options = {_functions.python_name(option["name"]): option for option in op.options}
        self.outputs = [argument["name"] for argument in op.outputs]
        self.result = _functions.result_type(name)
        self.gradient = _Gradient(self)
        self.function = _function_with_gradient(self)
        _library.define(f"{name}{self.schema()}", tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA"):
            _library.impl(name, self.compute, key)
        torch.library.register_fake(f"sectile::{name}", self.fake, lib=_library)
        torch.library.register_autograd(f"sectile::{name}", self.backward, setup_context=self.keep, lib=_Registrar(self))
        self.operator = getattr(torch.ops.sectile, name).default

    def schema(self):
        words = [f"Tensor {name}" if i < self.op.required else f"Tensor? {name}=None" for i, name in enumerate(self.inputs)]
        words.append("*") if self.options else None
        for name, option in self.options.items():
            kind = _KINDS.get(option["kind"], "str")
            default = _functions.default_of(option)
            if option["kind"] == "seed" and default != "None":
                default = str(_signed(int(default)))
            words.append(f"{kind}? {name}=None" if default == "None" else f"{kind} {name}={default}")
        results = "Tensor" if len(self.outputs) == 1 else f"({', '.join(['Tensor'] * len(self.outputs))})"
        return f"({', '.join(words)}) -> {results}"

    def present(self, inputs, options):
        given = {argument["name"] for argument, tensor in zip(self.op.inputs, inputs) if tensor is not None}
        named = {self.options[word]["name"]: value for word, value in options.items()}
        return _gradients.present(self.op, given, named)

    def compute(self, *inputs, **options):
        result = self.plain(*inputs, **options)
        if len(self.outputs) == 1:
            return result
        return tuple(inputs[0].new_empty(0) if tensor is None else tensor for tensor in result)

    def fake(self, *inputs, **options):
        types = [None] * len(self.inputs)
        for place, tensor in zip(self.op.places, inputs):
            types[place] = None if tensor is None else (_NAMES[tensor.dtype], tuple(int(extent) for extent in tensor.shape))
        made = [
            inputs[0].new_empty(0) if kind is None else inputs[0].new_empty(kind[1], dtype=_DTYPES[kind[0]])
            for kind in _functions.infer(self.op.name, types, options)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def compute_plain(self, keyset, *inputs, **options):
        """What the dispatcher calls first. Where nothing records, looks on or traces, the result follows at once; it costs
        half of what the way through torch's own function for gradients and then compute() does."""
        if _is_grad_enabled():
            for tensor in inputs:
                if tensor is not None and tensor.requires_grad:
                    return self.recorded(keyset, *inputs, **options)
        if _count_modes() or not _are_plain(inputs):
            return self.recorded(keyset, *inputs, **options)
        return self.compute(*inputs, **options)

    def keep(self, ctx, inputs, output, keyword_only_inputs=None):
        options = keyword_only_inputs or {}
        outputs = (output,) if len(self.outputs) == 1 else output
        there = self.present(inputs, options)
        self.gradient.keep(ctx, inputs, [tensor if here else None for tensor, here in zip(outputs, there)], options)

    def backward(self, ctx, *gradients):
        return self.gradient.run(ctx, gradients, ctx.needs_input_grad)

    def eager(self, *inputs, **options):
        """The call without the operator, where nothing records gradients."""
        return self.plain(*inputs, **options) if _are_plain(inputs) else self.call(*inputs, **options)

    def call(self, *inputs, **options):
        options = {word: _signed(value) for word, value in options.items() if value is not None}
        result = self.operator(*inputs, **options)
        if len(self.outputs) == 1:
            return result
        inputs += (None,) * (len(self.inputs) - len(inputs))
        there = self.present(inputs, options)
        return self.result(*[tensor if here else None for tensor, here in zip(result, there)])


_is_grad_enabled, _is_compiling = torch.is_grad_enabled, torch.compiler.is_compiling
# Whether a transform of torch.func is on.
_is_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
# How many of torch's modes look on, as a tracer's does.
_count_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)


class _Registrar:
    """Stands for the library where torch registers how an operator's gradients are recorded, and puts compute_plain()
    before it, if this torch registers as expected."""

    def __init__(self, operator):
        self.operator = operator

    def __getattr__(self, name):
        return getattr(_library, name)

    def impl(self, name, function, key="", **words):
        _library.impl(name, function, key, **words)
        if key == "Autograd" and words == {"with_keyset": True} and _count_modes:
            self.operator.recorded = function
            for device in ("AutogradCPU", "AutogradCUDA"):
                _library.impl(name, self.operator.compute_plain, device, with_keyset=True)


_PLAIN = {torch.Tensor, torch.nn.Parameter, type(None)}


def _are_plain(tensors):
    """Whether all are of torch's own classes, or None."""
    return _PLAIN.issuperset(map(type, tensors))


_NO_OPTIONS = {}
_FRAMEWORK = _products.Framework(
    (torch.float16, torch.bfloat16, torch.float32),
    cast=lambda tensor, dtype: tensor.to(dtype),
    count=lambda tensor: torch.arange(tensor.shape[0], device=tensor.device),
    where=torch.where,
)


class _Gradient:
    """How the gradients of an operation's calls are computed: what is kept of a call, and the backward pass. What follows
    from the operation alone is worked out here, since both run in each call."""

    def __init__(self, operator):
        self.name, self.outputs = operator.op.name, operator.outputs
        self.inputs = [argument["name"] for argument in operator.op.inputs]
        self.formula = _products.FORMULAS.get(self.name)
        pair = self.pair = _gradients.pair(self.name)
        known = self.formula or pair
        self.without = {i for i, name in enumerate(self.inputs) if not known or name not in known.results}
        differentiable = self.formula.outputs if self.formula else pair.differentiable_outputs if pair else ()
        self.constant = {i for i, name in enumerate(self.outputs) if name not in differentiable}
        if pair:
            of_inputs = {name: i for i, name in enumerate(self.inputs)}
            of_outputs = {name: i for i, name in enumerate(self.outputs)}
            kept = list(dict.fromkeys(pair.needs()))
            # Of an input and an output of one name, the backward pass means the output.
            self.kept = [(name in of_outputs, of_outputs.get(name, of_inputs.get(name))) for name in kept]
            roles = {argument["name"]: argument for argument in pair.inputs}
            self.sources = []  # of each argument: a place among what is kept, or that of an output's gradient
            for argument in pair.backward.inputs:
                role = roles[argument["name"]]
                if role["is"] == "gradient_of_output":
                    self.sources.append((False, of_outputs[role["of"]], argument["name"] in pair.optional))
                else:
                    self.sources.append((True, kept.index(role["of"]), True))
            # Outputs by which a gradient is zero where nothing depends on them.
            self.zeros = [at for is_kept, at, may_lack in self.sources if not is_kept and not may_lack] if len(self.outputs) > 1 else []
            made = [argument["name"] for argument in pair.backward.outputs]
            self.places = [made.index(pair.results[name]) if name in pair.results else None for name in self.inputs]
            self.words = [word for word, option in operator.options.items() if option["name"] in pair.options]
            self.backward = None  # the operator, once it is known

    def keep(self, ctx, inputs, outputs, options):
        if len(outputs) > 1:
            ctx.set_materialize_grads(False)
        if options:
            ctx.options = options
        if self.formula:
            ctx.save_for_backward(*[inputs[self.inputs.index(name)] if name in self.inputs else outputs[self.outputs.index(name)]
                                    for name in self.formula.needs(options)])
        elif self.pair:
            ctx.save_for_backward(*[outputs[at] if is_output else inputs[at] for is_output, at in self.kept])
            if self.zeros:
                ctx.shapes = {at: (outputs[at].shape, outputs[at].dtype) for at in self.zeros if outputs[at] is not None}

    def run(self, ctx, gradients, needed):
        """The gradients of all inputs; None of those that are not needed."""
        for i in self.without:
            if i < len(needed) and needed[i]:
                raise UnsupportedError(f"sectile.{self.name} has no gradient of '{self.inputs[i]}': detach it")
        for i in self.constant:
            if gradients[i] is not None:
                raise UnsupportedError(f"sectile.{self.name} has no gradient by its output '{self.outputs[i]}': detach it")
        # Torch itself leaves the gradient of a conjugate to be negated; any other is returned as it is.
        gradients = [gradient if gradient is None else gradient.resolve_neg() for gradient in gradients]
        as_operators = _is_grad_enabled() or _is_compiling()
        options = getattr(ctx, "options", _NO_OPTIONS)
        if self.formula:
            known = dict(zip(self.formula.needs(options), ctx.saved_tensors))
            wanted = [name for name, is_needed in zip(self.inputs, needed) if is_needed]

            def run(name, *inputs, **options):
                return (_operator(name).call if as_operators else _operator(name).eager)(*inputs, **options)

            made = self.formula.gradients(_FRAMEWORK, run, known, dict(zip(self.outputs, gradients)), options, wanted)
            return tuple(made.get(name) for name in self.inputs)
        kept = ctx.saved_tensors
        arguments = [kept[at] if is_kept else gradients[at] for is_kept, at, _ in self.sources]
        if self.zeros:
            for i, (is_kept, at, may_lack) in enumerate(self.sources):
                if not is_kept and not may_lack and arguments[i] is None and at in ctx.shapes:
                    some = next(gradient for gradient in gradients if gradient is not None)
                    arguments[i] = torch.zeros(ctx.shapes[at][0], dtype=ctx.shapes[at][1], device=some.device)
        if options:
            options = {word: options[word] for word in self.words if options.get(word) is not None}
        backward = self.backward
        if not backward:
            backward = self.backward = _operator(self.pair.backward.name)
        result = (backward.call if as_operators else backward.eager)(*arguments, **options)
        if len(backward.outputs) == 1:
            result = (result,)
        return tuple([None if at is None or not is_needed else result[at] for at, is_needed in zip(self.places, needed)])


def _function_with_gradient(operator):
    """The call with a gradient, as a function of the options and then the inputs: costs a third of an operator's."""
    plain, gradient, is_single = operator.plain, operator.gradient, len(operator.outputs) == 1

    def forward(ctx, options, *inputs):
        result = plain(*inputs, **options)
        gradient.keep(ctx, inputs, (result,) if is_single else result, options)
        return result if is_single else tuple(result)

    def backward(ctx, *gradients):
        return (None, *gradient.run(ctx, gradients, ctx.needs_input_grad[1:]))

    class Function(torch.autograd.Function):
        pass

    # What keep() does, without a frame of Python. Torch's methods for it set these two.
    if gradient.pair and not gradient.formula and hasattr(Function, "to_save") and hasattr(Function, "materialize_grads"):
        forward = _native.make_recorder(plain, gradient.kept, gradient.zeros)
    Function.forward = staticmethod(forward)
    Function.backward = staticmethod(backward)

    Function.__name__ = Function.__qualname__ = operator.op.name
    return Function


def _operator(name):
    if name not in _defined:
        _defined[name] = _Operator(name)
    return _defined[name]


def _traced(name):
    """The function that calls the operator: what torch looks into."""
    operator = _operator(name)
    names = operator.inputs

    def call(*inputs, **words):
        if words.pop("out", None) is not None:
            raise UnsupportedError(f"{name}() with out has no gradients and cannot be compiled: leave out away")
        if len(inputs) > len(names):
            raise operator.op.too_many(len(inputs))
        given = list(inputs) + [words.pop(word, None) for word in names[len(inputs):]]
        for word, tensor in zip(names[: operator.op.required], given):
            if tensor is None:
                raise TypeError(f"{name}() needs {word}")
        for word in words:
            if word not in operator.options:
                raise operator.op.unknown(word)
        if _is_compiling() or _is_transformed() or not _are_plain(given):
            return operator.call(*given, **words)
        result = operator.function.apply({word: value for word, value in words.items() if value is not None}, *given)
        return result if len(operator.outputs) == 1 else operator.result(*result)

    return call


def _function(name):
    traced, eager = _functions_by_name[name], _functions.function(name)

    def call(*inputs, **words):
        looked_into = _is_compiling() or _is_transformed()
        return traced(*inputs, **words) if looked_into else eager(*inputs, **words)

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__doc__ = _functions.operation(name).documentation
    return call


def _gradient_of(name):
    """What sectile.attention() calls for a gradient where all inputs are tensors of torch's own kind: the options as a
    dict, then all inputs in order. A tuple where there are several outputs."""
    function = _operator(name).function
    # What Function.apply() comes to where no transform of functorch is on, as the caller has seen.
    return super(torch.autograd.Function, function).apply if hasattr(torch._C, "_are_functorch_transforms_active") else function.apply


class _Traced(dict):
    def __missing__(self, name):  # of a library that was loaded later
        made = self[name] = _traced(name)
        return made


_functions_by_name = _Traced({name: _traced(name) for name in operations()})  # what sectile.attention() calls for a gradient
globals().update({name: _function(name) for name in operations()})


def __getattr__(name):
    if name not in operations():
        raise AttributeError(f"module 'sectile.torch' has no attribute '{name}'")
    made = globals()[name] = _function(name)
    return made


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention, computed by sectile.attention: a bool mask is true where a query
    sees a key, another one is added to the scores. Dropout follows torch's generator, and drops other weights than torch.
    A mask's gradient is computed where it is asked for. Queries that see no key give 0."""
    if query.dim() not in (3, 4):
        raise ValueError(f"query has {query.dim()} axes: 3 or 4 are possible")
    if is_causal and attn_mask is not None:
        raise ValueError("is_causal and attn_mask exclude each other")
    if is_causal and query.shape[-2] != key.shape[-2]:
        # Torch aligns the triangle with the first query and key, this library with the last ones.
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        is_causal = False
    if query.dim() == 3:
        mask = attn_mask.unsqueeze(-3) if attn_mask is not None and attn_mask.dim() == 3 else attn_mask
        return scaled_dot_product_attention(query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), mask, dropout_p,
                                            is_causal, scale, enable_gqa).squeeze(1)
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}: enable_gqa allows it")
    words = {}
    if attn_mask is not None:
        # Axes that are broadcast along queries or keys are written out; those of the batch and the heads need not be.
        mask = attn_mask.reshape((1,) * (4 - attn_mask.dim()) + attn_mask.shape)
        mask = mask.expand(*mask.shape[:2], query.shape[-2], key.shape[-2])
        words["mask" if mask.dtype == torch.bool else "bias"] = mask if mask.dtype == torch.bool else mask.to(query.dtype)
    if dropout_p > 0:
        words["seed_offset"] = torch.randint(0, 1 << 62, (1,), device=query.device)
    return attention(query, key, value, causal=is_causal, dropout=float(dropout_p), scale=scale, **words).o  # noqa: F821
