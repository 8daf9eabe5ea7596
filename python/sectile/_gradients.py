# How a call of X_backward follows from a call of X: the library says of each argument what it is to X.
from . import _functions

# Of these inputs the gradient is that of another: what both were added to was normalised.
SAME = {("rms_norm", "residual"): "x"}


class Pair:
    """An operation and the operation of its gradients. Names are the library's."""

    def __init__(self, forward, backward, arguments, options):
        self.forward, self.backward, self.options = forward, backward, options
        self.inputs = [argument for argument in arguments if argument["is"] != "gradient_of_input"]
        self.results = {argument["of"]: argument["name"] for argument in arguments if argument["is"] == "gradient_of_input"}
        self.differentiable_outputs = {argument["of"] for argument in arguments if argument["is"] == "gradient_of_output"}
        self.optional = {argument["name"] for argument in backward.inputs if argument["optional"]}
        for (name, same), other in SAME.items():
            if name == forward.name:
                self.results[same] = self.results[other]

    def needs(self):
        """The names of the call's inputs and outputs that its gradients are made of."""
        return [argument["of"] for argument in self.inputs if argument["is"] != "gradient_of_output"]

    def arguments(self, known, gradients, zeros):
        """The inputs of the backward operation by their names. `known`: the call's inputs and outputs by name, None for
        those that it did not have; `gradients`: of outputs by name, None where nothing depends on one; zeros(name) makes
        the gradient of such an output, None of one that the call did not have."""
        given = {}
        for argument in self.inputs:
            name, of = argument["name"], argument["of"]
            if argument["is"] != "gradient_of_output":
                given[name] = known[of]
            elif gradients[of] is not None or name in self.optional:
                given[name] = gradients[of]
            else:
                given[name] = zeros(of)
        return given


def pair(name):
    """The pair of an operation, None where it has none."""
    forward = _functions.operation(name)
    if not forward.backward:
        return None
    return Pair(forward, _functions.operation(forward.backward["name"]), forward.backward["arguments"],
                forward.backward["options"])


def present(op, given, options):
    """Which outputs a call has, by the operation's own rule. `given`: names of the inputs that there are."""
    return [not output["with"] or output["with"] in given or bool(options.get(output["with"])) for output in op.outputs]
