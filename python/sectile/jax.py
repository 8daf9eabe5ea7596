# sectile.jax: every operation as a function of JAX: under jit, with gradients.
"""Sectile's operations as functions of JAX's arrays: sectile.jax.attention(q, k, v).

They work under jax.jit and have gradients where the library has them (jax.grad, jax.vjp). On a GPU they run in XLA's
stream; arrays on the host are computed by a virtual GPU.
"""
import functools

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from . import _functions, _gradients, _native, _products, operations
from ._errors import UnsupportedError

for _platform, _handler in _native.xla_handlers().items():
    jax.ffi.register_ffi_target("sectile", _handler, platform=_platform)

_NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e4m3b11fnuz": "f8e4m3b11fnuz",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def _text(value):
    """An option's value as the library reads it of a text."""
    if hasattr(value, "item"):  # a scalar of NumPy
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _run(op, options, arrays):
    """The call. `arrays`: of all inputs in the library's order, None for those left out. A tuple of outputs, likewise."""
    types = [None if array is None else (_NAMES.get(array.dtype.name, array.dtype.name), array.shape) for array in arrays]
    outputs = _functions.infer(op.name, types, options)
    names = {_functions.python_name(option["name"]): option["name"] for option in op.options}
    attributes = {f"option.{names[word]}": _text(value) for word, value in options.items()}
    given = "|".join("".join(letter if there is not None else "-" for there in each) for letter, each in (("i", arrays), ("o", outputs)))
    shapes = [jax.ShapeDtypeStruct(kind[1], jnp.dtype(_DTYPES[kind[0]])) for kind in outputs if kind]
    call = jax.ffi.ffi_call("sectile", shapes, vmap_method="sequential")
    results = iter(call(*(array for array in arrays if array is not None), operation=op.name, given=given, **attributes))
    return tuple(next(results) if kind else None for kind in outputs)


@jax.tree_util.register_static
class _Names:
    """Names of inputs, as JAX keeps what is no array between a call and its gradient."""

    def __init__(self, names):
        self.names = tuple(names)

    def __eq__(self, other):
        return self.names == other.names

    def __hash__(self):
        return hash(self.names)


_FRAMEWORK = _products.Framework(
    (jnp.dtype("float16"), jnp.dtype("bfloat16"), jnp.dtype("float32")),
    cast=lambda array, dtype: array.astype(dtype),
    count=lambda array: jnp.arange(array.shape[0]),
    where=jnp.where,
)


@functools.lru_cache(maxsize=None)
def _differentiable(name, options):
    """A call with these options, as a function of its inputs in the library's order."""
    op, pair, options = _functions.operation(name), _gradients.pair(name), dict(options)
    formula = _products.FORMULAS.get(name)
    differentiable = formula.results if formula else pair.results if pair else ()
    inputs = [argument["name"] for argument in op.all_inputs]
    outputs = [argument["name"] for argument in op.outputs]

    @jax.custom_vjp
    def call(*arrays):
        return _run(op, options, arrays)

    def forward(*arrays):
        wanted = _Names(name for name, array in zip(inputs, arrays) if array is not None and array.perturbed)
        arrays = tuple(None if array is None else array.value for array in arrays)
        results = call(*arrays)  # which has gradients again
        return results, (wanted, arrays, results)

    def backward(kept, gradients):
        wanted, arrays, results = kept
        unknown = [of for of in wanted.names if of not in differentiable]
        if unknown:
            raise UnsupportedError(f"sectile.{name} has no gradient of '{unknown[0]}': use jax.lax.stop_gradient() on it")
        known = dict(zip(inputs, arrays)) | dict(zip(outputs, results))
        given = {of: None if gradient is None or isinstance(gradient, SymbolicZero) else gradient
                 for of, gradient in zip(outputs, gradients)}
        by_outputs = formula.outputs if formula else pair.differentiable_outputs
        for of, gradient in given.items():
            if gradient is not None and of not in by_outputs:
                raise UnsupportedError(f"sectile.{name} has no gradient by its output '{of}': use jax.lax.stop_gradient() on it")
        if formula:
            for of in by_outputs:
                if given[of] is None:
                    given[of] = jnp.zeros_like(known[of])
            made = formula.gradients(_FRAMEWORK, lambda name, *inputs, **words: _functions_by_name[name](*inputs, **words), known,
                                     given, options, wanted.names)
            return tuple(made[of].astype(known[of].dtype) if of in wanted.names else None for of in inputs)
        taken = pair.arguments(known, given, lambda of: None if known[of] is None else jnp.zeros_like(known[of]))
        shared = {_functions.python_name(option) for option in pair.options}
        chosen = tuple((word, value) for word, value in sorted(options.items()) if word in shared)
        made = _differentiable(pair.backward.name, chosen)(*(taken[argument["name"]] for argument in pair.backward.all_inputs))
        by_name = dict(zip((argument["name"] for argument in pair.backward.outputs), made))
        return tuple(by_name[pair.results[of]] if of in wanted.names else None for of in inputs)

    call.defvjp(forward, backward, symbolic_zeros=True)
    return call


def _function(name):
    op = _functions.operation(name)
    by_place, named = op.parameters
    names = [word for word, _ in by_place]
    options = {word for word, _ in named} - {"out"}

    def call(*inputs, **words):
        if len(inputs) > len(names):
            raise op.too_many(len(inputs))
        given = list(inputs) + [words.pop(word, None) for word in names[len(inputs):]]
        for word, array in zip(names[: op.required], given):
            if array is None:
                raise TypeError(f"{name}() needs {word}")
        if words.pop("out", None) is not None:
            raise TypeError(f"{name}() takes no out: JAX's arrays cannot be written")
        for word in words:
            if word not in options:
                raise op.unknown(word)
        arrays = [None] * len(given)
        for place, array in zip(op.places, given):
            arrays[place] = None if array is None else jnp.asarray(array)
        chosen = tuple(sorted((word, value) for word, value in words.items() if value is not None))
        results = _differentiable(name, chosen)(*arrays)
        return results[0] if len(results) == 1 else _functions.result_type(name)(*results)

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__doc__ = op.documentation
    return call


class _Functions(dict):
    def __missing__(self, name):  # of a library that was loaded later
        made = self[name] = _function(name)
        return made


_functions_by_name = _Functions({_name: _function(_name) for _name in operations()})  # what sectile.attention() calls for JAX's arrays
globals().update(_functions_by_name)


def __getattr__(name):
    if name not in operations():
        raise AttributeError(f"module 'sectile.jax' has no attribute '{name}'")
    return _functions_by_name[name]
