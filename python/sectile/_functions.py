# Makes functions of operations' descriptions: signatures, documentation, what the stub file says.
import collections
import functools
import json
import keyword
import textwrap

from . import _native

# The keyword for tensors that the caller has for the outputs is `out`, as in torch and NumPy, so an option of that name
# has torch's name for it.
RENAMED = {"out": "out_dtype"}


def python_name(name):
    name = RENAMED.get(name, name)
    return name + "_" if keyword.iskeyword(name) else name


class Operation:
    """An operation as the library describes it, with the names and the order that Python has for its arguments."""

    def __init__(self, description):
        self.name = description["name"]
        self.summary = description["summary"]
        self.family = description["family"]
        self.backward = description["backward"]
        arguments = description["arguments"]
        self.all_inputs = [argument for argument in arguments if not argument["output"]]  # as the library has them
        self.outputs = [argument for argument in arguments if argument["output"]]
        # Those without a default come first, as Python has it.
        self.inputs = sorted(self.all_inputs, key=lambda argument: argument["optional"])
        self.places = tuple(self.all_inputs.index(argument) for argument in self.inputs)
        self.required = sum(not argument["optional"] for argument in self.inputs)
        self.options = description["options"]

    @property
    def parameters(self):
        """(name, default) of what may be given by place, and of what has to be named; defaults as Python's text."""
        by_place = [(python_name(argument["name"]), "None" if argument["optional"] else None) for argument in self.inputs]
        named = [(python_name(option["name"]), default_of(option)) for option in self.options]
        return by_place, named + [("out", "None")]

    @property
    def signature(self):
        by_place, named = self.parameters
        words = [name if default is None else f"{name}={default}" for name, default in by_place]
        return f"({', '.join(words + ['*'] + [f'{name}={default}' for name, default in named])})"

    def too_many(self, given):
        """The error that so many positional tensors are."""
        takes = len(self.inputs)
        return TypeError(
            f"{self.name}() takes {takes} positional tensor{'' if takes == 1 else 's'}, and {given} were given; "
            "options go by name"
        )

    def unknown(self, word):
        """The error that an argument of this name is."""
        by_place, named = self.parameters
        return TypeError(f"{self.name}() has no argument '{word}'; it has {', '.join(name for name, _ in by_place + named)}")

    @property
    def documentation(self):
        lines = [self.summary, ""]
        if self.inputs:
            lines.append("Tensors:")
            lines += [described(python_name(argument["name"]), type_of(argument), argument["doc"]) for argument in self.inputs]
        if self.options:
            lines.append("Options:")
            lines += [described(python_name(option["name"]), kind_of(option), option["doc"]) for option in self.options]
        lines.append("Returns:" if len(self.outputs) == 1 else "Returns a named tuple:")
        lines += [described(argument["name"], type_of(argument), argument["doc"]) for argument in self.outputs]
        lines += ["", "out: tensors to write the results to, in place of new ones; a tuple where there are several."]
        return "\n".join(lines)


def default_of(option):
    default, kind = option["default"], option["kind"]
    if default is None:
        return "None"
    if kind == "flag":
        return "True" if default == "true" else "False"
    if kind == "number":
        return repr(float(default))
    if kind in ("integer", "seed"):
        return repr(int(default))
    return repr(default)


def kind_of(option):
    kinds = {"flag": "bool", "number": "number", "integer": "whole number", "seed": "whole number of 64 bits"}
    kind = kinds.get(option["kind"]) or " or ".join(repr(choice) for choice in option["choices"])
    return kind if option["default"] is not None else kind + ", optional"


def type_of(argument):
    axes = f"[{', '.join(argument['axes'])}]"
    if argument["like"]:
        dtypes = f"dtype of {python_name(argument['like'])}"
    else:
        dtypes = ", ".join(argument["dtypes"])
    words = [axes, dtypes] if dtypes else [axes]
    if argument["optional"]:
        words.append("optional")
    if argument["output"] and argument["with"]:
        words.append(f"None without {python_name(argument['with'])}")
    return "; ".join(words)


def described(name, kind, doc):
    return textwrap.fill(f"{name} ({kind}): {doc}", 100, initial_indent="    ", subsequent_indent="        ")


@functools.lru_cache(maxsize=None)
def operation(name):
    return Operation(json.loads(_native.describe(name)))


def function(name, gradients=True):
    """The operation as a function; raises NotFoundError. `gradients`: inputs that want a gradient get one, where their
    framework records it."""
    op = operation(name)
    return _native.make_function(
        name,
        f"{name}{op.signature}\n--\n\n{op.documentation}",
        tuple(python_name(argument["name"]) for argument in op.inputs),
        op.places,
        op.required,
        tuple(python_name(option["name"]) for option in op.options),
        tuple(option["name"] for option in op.options),
        tuple(argument["name"] for argument in op.outputs),
        gradients,
    )


def infer(name, inputs, options):
    """The outputs' types. `inputs`: (dtype, shape) or None of each, in the library's order; options by Python's names.
    (dtype, shape) of each output; None of those that the call does not have."""
    op = operation(name)
    names = {python_name(option["name"]): option["name"] for option in op.options}
    given = tuple((names[word], value) for word, value in options.items() if value is not None)
    return _native.infer_types(name, tuple(inputs), len(op.outputs), given)


@functools.lru_cache(maxsize=None)
def result_type(name):
    """The named tuple of an operation's outputs, for those who make results in Python."""
    return collections.namedtuple(f"{name}_result", [argument["name"] for argument in operation(name).outputs])
