// activation: y = f(x) element by element, and its gradient.
#include "kernels/blocks/RoundedActivations.h"
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/elementwise/Family.h"
#include "kernels/elementwise/Together.h"

using namespace sectile;

namespace {

// relu, gelu (its tanh form too), silu, sigmoid, tanh and softplus as PyTorch's functions of these
// names, relu_squared is relu(x)^2 (So et al., arXiv 2109.08668):
//   gelu(x) = x/2 (1 + erf(x / sqrt(2))) (Hendrycks and Gimpel, arXiv 1606.08415)
//   gelu_tanh(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//   silu(x) = x sigmoid(x), softplus(x) = log(1 + e^x)
// dx = f'(x) dy with derivatives of these; that of relu is 0 at 0. NaN stays NaN.
template <class T>
Kernel activationKernel{
    "activation", [](View<const T, 3> x, View<T, 3> y, const ElementsConfig &config) {
      const ElementTile at(x, config);
      at.store(y, activateFor<T>(static_cast<Activation>(config.kind), cast<float>(at.load(x))));
    }};

template <class T>
Kernel activationBackward{
    "activation_backward",
    [](View<const T, 3> x, View<const T, 3> dy, View<T, 3> dx, const ElementsConfig &config) {
      const ElementTile at(x, config);
      auto values = cast<float>(at.load(x)), gradient = cast<float>(at.load(dy));
      at.store(dx,
               gradient * activationDerivativeFor<T>(static_cast<Activation>(config.kind), values));
    }};

void fill(KernelSpec &spec, const std::vector<ArgumentRow> &others) {
  spec.add_arguments({{"x: [...] f32|f16|bf16", "any shape"}});
  spec.add_arguments(others);
  spec.options = {
      {.name = "kind",
       .kind = OptionSpec::choice,
       .initial = "gelu",
       .choices = activationNames(),
       .doc = "the function; gelu by the error function, gelu_tanh by its approximation"}};
  addElementsConfig(spec);
}

int kindOf(const Use &use) {
  return static_cast<int>(activationOf(use.call.options.choice("kind")));
}

} // namespace

KernelSpec sectile::activationSpec() {
  KernelSpec spec;
  spec.name = "activation";
  spec.summary = "y = f(x), element by element";
  fill(spec, {{"-> y: [...] like x over x", "the function's values"}});
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    return std::vector{
        activationReference(in[0], activationOf(call.options.choice("kind")), arithmetic)};
  };
  spec.apply = [](Use &use) {
    const Together together(use, {"x", "y"});
    const ElementsConfig chosen = elementsConfig(use, together, kindOf(use));
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(activationKernel<T>, programsFor(together, chosen), together.of<T>("x"),
          together.of<T>("y"), chosen);
    });
  };
  return spec;
}

KernelSpec sectile::activationBackwardSpec() {
  KernelSpec spec;
  spec.name = "activation_backward";
  spec.summary = "dx = f'(x) dy, element by element";
  fill(spec, {{"dy: [...] like x", "gradient of y"},
              {"-> dx: [...] like x over x, dy", "gradient of x"}});
  spec.factor = 3;
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    return std::vector{activationBackwardReference(
        in[0], in[1], activationOf(call.options.choice("kind")), arithmetic)};
  };
  spec.apply = [](Use &use) {
    const Together together(use, {"x", "dy", "dx"});
    const ElementsConfig chosen = elementsConfig(use, together, kindOf(use));
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(activationBackward<T>, programsFor(together, chosen), together.of<T>("x"),
          together.of<T>("dy"), together.of<T>("dx"), chosen);
    });
  };
  return spec;
}
