// Activations on the host.
#include "kernels/blocks/Activations.h"
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;

HostArray sectile::activationReference(const HostArray &x, Activation kind, Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    auto values = numbers.load(x);
    for (auto &value : values)
      value = activate(kind, value);
    return numbers.pack(numbers.result, x.shape, values);
  });
}

HostArray sectile::activationBackwardReference(const HostArray &x, const HostArray &dy,
                                               Activation kind, Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    auto values = numbers.load(x), gradient = numbers.load(dy);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = gradient[i] * numbers.store(activationDerivative(kind, values[i]));
    return numbers.pack(numbers.result, x.shape, values);
  });
}

HostArray sectile::gatedReference(const HostArray &gate, const HostArray &up, Activation kind,
                                  Arithmetic arithmetic) {
  return with_arithmetic(gate.dtype, arithmetic, [&](auto numbers) {
    auto gates = numbers.load(gate), ups = numbers.load(up);
    for (std::size_t i = 0; i < gates.size(); ++i)
      gates[i] = numbers.store(activate(kind, gates[i])) * ups[i];
    return numbers.pack(numbers.result, gate.shape, gates);
  });
}

GatedGradients sectile::gatedBackwardReference(const HostArray &gate, const HostArray &up,
                                               const HostArray &dy, Activation kind,
                                               Arithmetic arithmetic) {
  return with_arithmetic(gate.dtype, arithmetic, [&](auto numbers) {
    auto gates = numbers.load(gate), ups = numbers.load(up), gradient = numbers.load(dy);
    for (std::size_t i = 0; i < gates.size(); ++i) {
      const auto value = numbers.store(activate(kind, gates[i]));
      gates[i] =
          numbers.store(gradient[i] * ups[i]) * numbers.store(activationDerivative(kind, gates[i]));
      ups[i] = gradient[i] * value;
    }
    return GatedGradients{numbers.pack(numbers.result, gate.shape, gates),
                          numbers.pack(numbers.result, gate.shape, ups)};
  });
}
