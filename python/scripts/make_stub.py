# Writes the stub file of the package `sectile`, for editors and type checkers: all functions with their types.
# make_stub.py OUTPUT
import sys

from sectile import _functions, operations

HEAD = '''# Written by make_stub.py from what the library says of its operations.
import os
from typing import Any, Callable, Generic, Literal, NamedTuple, TypeVar

from ._devices import Device as Device, devices as devices, use_host_device as use_host_device
from ._errors import (
    CompileError as CompileError,
    DeviceError as DeviceError,
    DeviceLostError as DeviceLostError,
    Error as Error,
    InternalError as InternalError,
    InvalidError as InvalidError,
    KernelAssertionError as KernelAssertionError,
    LaunchError as LaunchError,
    NoCodeError as NoCodeError,
    NotFoundError as NotFoundError,
    OutOfMemoryError as OutOfMemoryError,
    UnsupportedError as UnsupportedError,
)
from ._tune import tune as tune
from . import bundle as bundle, cache as cache, jax as jax, torch as torch

__version__: str

# A tensor of any framework: what goes in is what comes out.
Tensor = TypeVar("Tensor")

def operations() -> list[str]: ...
def load(path: str | os.PathLike[str]) -> None: ...
def prepare(operation: Callable[..., Any] | str, /, *tensors: Any, **words: Any) -> Callable[..., Any]: ...
'''
TYPES = {"flag": "bool", "number": "float", "integer": "int", "seed": "int"}


def type_of_option(option):
    kind = TYPES.get(option["kind"]) or f"Literal[{', '.join(map(repr, option['choices']))}]"
    return kind if option["default"] is not None else f"{kind} | None"


def stub(op):
    lines = []
    result = "Tensor"
    if len(op.outputs) > 1:
        lines += ["", f"class {op.name}_result(NamedTuple, Generic[Tensor]):"]
        lines += [f"    {argument['name']}: Tensor{' | None' if argument['with'] else ''}" for argument in op.outputs]
        result = f"{op.name}_result[Tensor]"
    by_place, named = op.parameters
    types = {_functions.python_name(option["name"]): type_of_option(option) for option in op.options}
    types["out"] = "Tensor | None" if len(op.outputs) == 1 else "tuple[Tensor | None, ...] | None"
    lines += ["", f"def {op.name}("]
    lines += [f"    {name}: Tensor{'' if default is None else ' | None = None'}," for name, default in by_place]
    lines.append("    *,")
    lines += [f"    {name}: {types[name]} = {default}," for name, default in named]
    text = op.documentation.replace("\\", "\\\\").replace('"""', r"\"\"\"")
    lines += [f") -> {result}:", '    """' + text.replace("\n", "\n    ").replace("\n    \n", "\n\n"), '    """', "    ..."]
    return "\n".join(lines)


text = HEAD + "\n".join(stub(_functions.operation(name)) for name in operations()) + "\n"
with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write(text)
