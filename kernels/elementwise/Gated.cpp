// swiglu and geglu: y = f(gate) up, element by element, and their gradients.
#include "kernels/blocks/RoundedActivations.h"
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/elementwise/Family.h"
#include "kernels/elementwise/Together.h"

using namespace sectile;

namespace {

// Shazeer's gated linear units (arXiv 2002.05202), f = silu or gelu:
//   y = f(gate) up, dgate = dy up f'(gate), dup = dy f(gate)
template <class T>
Kernel gated{"gated", [](View<const T, 3> gate, View<const T, 3> up, View<T, 3> y,
                         const ElementsConfig &config) {
               const ElementTile at(gate, config);
               auto gates = cast<float>(at.load(gate)), ups = cast<float>(at.load(up));
               at.store(y, activateFor<T>(static_cast<Activation>(config.kind), gates) * ups);
             }};

template <class T>
Kernel gatedBackward{"gated_backward",
                     [](View<const T, 3> gate, View<const T, 3> up, View<const T, 3> dy,
                        View<T, 3> dgate, View<T, 3> dup, const ElementsConfig &config) {
                       const ElementTile at(gate, config);
                       auto gates = cast<float>(at.load(gate)), ups = cast<float>(at.load(up)),
                            gradient = cast<float>(at.load(dy));
                       const auto kind = static_cast<Activation>(config.kind);
                       at.store(dgate, gradient * ups * activationDerivativeFor<T>(kind, gates));
                       at.store(dup, gradient * activateFor<T>(kind, gates));
                     }};

using KindOf = Activation (*)(const OptionValues &);

Activation silu(const OptionValues &) { return Activation::silu; }
Activation gelu(const OptionValues &options) {
  return options.choice("approximate") == "tanh" ? Activation::gelu_tanh : Activation::gelu;
}

KernelSpec begin(const char *name, const char *summary, KindOf kindOf,
                 const std::vector<ArgumentRow> &others) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.add_arguments(
      {{"gate: [...] f32|f16|bf16", "any shape; the halves of one array may be gate and up"},
       {"up: [...] like gate", "the same shape"}});
  spec.add_arguments(others);
  if (kindOf == gelu)
    spec.add_options({{"approximate: none|tanh = none", "gelu by the error function, or by tanh"}});
  addElementsConfig(spec);
  return spec;
}

KernelSpec forward(const char *name, const char *summary, KindOf kindOf) {
  KernelSpec spec =
      begin(name, summary, kindOf, {{"-> y: [...] like gate over gate, up", "the gated values"}});
  spec.reference = [kindOf](const Invocation &call, std::span<const HostArray> in,
                            Arithmetic arithmetic) {
    return std::vector{gatedReference(in[0], in[1], kindOf(call.options), arithmetic)};
  };
  spec.apply = [kindOf](Use &use) {
    const Together together(use, {"gate", "up", "y"});
    const ElementsConfig chosen =
        elementsConfig(use, together, static_cast<int>(kindOf(use.call.options)));
    for_dtype<float, half, bfloat16>(use.call.dtype("gate"), [&]<class T>(T) {
      use(gated<T>, programsFor(together, chosen), together.of<T>("gate"), together.of<T>("up"),
          together.of<T>("y"), chosen);
    });
  };
  return spec;
}

KernelSpec backward(const char *name, const char *summary, KindOf kindOf) {
  KernelSpec spec = begin(name, summary, kindOf,
                          {{"dy: [...] like gate", "gradient of y"},
                           {"-> dgate: [...] like gate over gate, up, dy", "gradient of gate"},
                           {"-> dup: [...] like gate over gate, up, dy", "gradient of up"}});
  spec.factor = 3;
  spec.reference = [kindOf](const Invocation &call, std::span<const HostArray> in,
                            Arithmetic arithmetic) {
    auto result = gatedBackwardReference(in[0], in[1], in[2], kindOf(call.options), arithmetic);
    return std::vector{result.dgate, result.dup};
  };
  spec.apply = [kindOf](Use &use) {
    const Together together(use, {"gate", "up", "dy", "dgate", "dup"});
    const ElementsConfig chosen =
        elementsConfig(use, together, static_cast<int>(kindOf(use.call.options)));
    for_dtype<float, half, bfloat16>(use.call.dtype("gate"), [&]<class T>(T) {
      use(gatedBackward<T>, programsFor(together, chosen), together.of<T>("gate"),
          together.of<T>("up"), together.of<T>("dy"), together.of<T>("dgate"),
          together.of<T>("dup"), chosen);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::swigluSpec() { return forward("swiglu", "y = silu(gate) * up", silu); }
KernelSpec sectile::swigluBackwardSpec() {
  return backward("swiglu_backward", "gradients of y = silu(gate) * up", silu);
}
KernelSpec sectile::gegluSpec() { return forward("geglu", "y = gelu(gate) * up", gelu); }
KernelSpec sectile::gegluBackwardSpec() {
  return backward("geglu_backward", "gradients of y = gelu(gate) * up", gelu);
}
