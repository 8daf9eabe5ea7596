// vector_add: z = x + y, as torch.add of equal shapes, of any strides.
#include "kernels/elementwise/Family.h"
#include "kernels/elementwise/Together.h"

using namespace sectile;

namespace {

template <class T>
Kernel vectorAdd{"vector_add", [](View<const T, 3> x, View<const T, 3> y, View<T, 3> z,
                                  const ElementsConfig &config) {
                   const ElementTile at(x, config);
                   at.store(z, at.load(x) + at.load(y));
                 }};

} // namespace

KernelSpec sectile::vectorAddSpec() {
  KernelSpec spec;
  spec.name = "vector_add";
  spec.summary = "z = x + y, element by element";
  spec.add_arguments({{"x: [...] f32|f16|bf16|f64", "any shape"},
                      {"y: [...] like x", "the same shape"},
                      {"-> z: [...] like x over x, y", "the sum"}});
  spec.reference = [](const Invocation &, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{vectorAddReference(inputs[0], inputs[1], arithmetic)};
  };
  addElementsConfig(spec);
  spec.apply = [](Use &use) {
    const Together together(use, {"x", "y", "z"});
    const ElementsConfig chosen = elementsConfig(use, together);
    for_dtype<float, half, bfloat16, double>(use.call.dtype("x"), [&]<class T>(T) {
      use(vectorAdd<T>, programsFor(together, chosen), together.of<T>("x"), together.of<T>("y"),
          together.of<T>("z"), chosen);
    });
  };
  return spec;
}
