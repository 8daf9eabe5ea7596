# Kernels of Sectile for tensors of NumPy, torch, JAX and every framework that speaks DLPack.
"""GPU kernels that are compiled when they are called: sectile.attention(q, k, v), sectile.softmax(x) and so on.

Functions take tensors of any framework and give tensors of the same framework, on the same device. Tensors in host
memory are computed by a virtual GPU. `dir(sectile)` lists the functions, and `help(sectile.attention)` says what one of
them takes.
"""
from . import _native
from ._errors import *  # noqa: F403
from ._errors import BY_STATUS as _BY_STATUS
from ._library import library as _library

_version = _native.load(_library(), _BY_STATUS)
__version__ = f"{_version // 10000}.{_version // 100 % 100}.{_version % 100}"

from ._functions import function as _function  # noqa: E402  # it needs the library
from ._devices import Device, devices, use_host_device  # noqa: E402, F401
from ._tune import tune  # noqa: E402, F401

_MODULES = ("bundle", "cache", "jax", "torch")  # imported when they are asked for


def load(path):
    """Loads a shared library of kernels in C++ that registers them (docs/own-kernels.md): each is a function of this module
    from then on. The library has to be linked with the libsectile that this process uses, which SECTILE_LIBRARY names;
    the one in the wheel takes none."""
    import os

    _native.load_library(os.path.abspath(os.fspath(path)))


def prepare(operation, /, *tensors, **words):
    """A call of an operation (its function or its name) with these arguments, of which all is settled: the configuration,
    the code, scratch memory. What it returns is a function: called without arguments it runs on the same tensors, writes
    to the same results, and returns them. Tensors that it is given, by place, by name or as `out`, must be like those
    that it was prepared with, and count for that call alone; options cannot change. It records no gradients, takes
    tensors of torch and NumPy, and its calls in several streams must be ordered. Tensors must keep their memory."""
    function = __getattr__(operation) if isinstance(operation, str) else operation
    return _native.prepare(function, *tensors, **words)


def operations():
    """The names of all operations: each is a function of this module."""
    return _native.op_names()


def __getattr__(name):
    if name in _MODULES:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    if name.startswith("_") or name not in _native.op_names():
        raise AttributeError(f"module 'sectile' has no attribute '{name}'")
    made = globals()[name] = _function(name)
    return made


def __dir__():
    return sorted({word for word in globals() if not word.startswith("_")} | {*operations(), *_MODULES})
