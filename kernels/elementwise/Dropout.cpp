// dropout: elements are left out at random, the others scaled up; and its gradient, the same with
// the same elements:
//   y = x / (1 - p) where u >= p, else 0, with u in [0, 1) drawn by Philox 4x32-10
// (Hinton et al., arXiv 1207.0580, scaled as torch.nn.functional.dropout does; Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC11). What is left out may be NaN; p = 1 leaves
// all out. A p that is not from 0 to 1 is refused.
#include "kernels/elementwise/Draws.h"
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/elementwise/Family.h"
#include "kernels/elementwise/Together.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

template <class T, bool Backward>
Kernel dropout{Backward ? "dropout_backward" : "dropout",
               [](View<const T, 3> x, View<T, 3> y, Tile<std::int64_t> seed, Float p, Float scale,
                  const ElementsConfig &config) {
                 const ElementTile at(x, config);
                 auto values = cast<float>(at.load(x));
                 auto kept = drawn(x, at, seed, config) >= p;
                 at.store(y, where(kept, values * scale, 0.0f));
               }};

// `from` is dropped out to `to`.
template <bool Backward>
KernelSpec specOf(const char *name, const char *summary, const std::string &from,
                  const std::string &to, const char *fromDoc, const char *toDoc) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.add_arguments({{from + ": [...] f32|f16|bf16", fromDoc},
                      {"-> " + to + ": [...] like " + from + " over " + from, toDoc}});
  spec.add_options(
      {{"p: number = 0.5 from 0 to 1 e.g. 0, 0.25",
        "how probably an element is left out, from 0 to 1"},
       {"seed: seed = 0 e.g. 7, 18446744073709551615", "of the random numbers; 64 bits"}});
  addElementsConfig(spec);
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    return std::vector{
        dropoutReference(in[0], call.options.number("p"), call.options.seed("seed"), arithmetic)};
  };
  spec.apply = [from, to](Use &use) {
    const Together together(use, {from, to});
    const ElementsConfig chosen = elementsConfig(use, together);
    const double p = use.call.options.number("p");
    for_dtype<float, half, bfloat16>(use.call.dtype(from), [&]<class T>(T) {
      use(dropout<T, Backward>, programsFor(together, chosen), together.of<T>(from),
          together.of<T>(to), static_cast<std::int64_t>(use.call.options.seed("seed")),
          static_cast<float>(p), static_cast<float>(p < 1 ? 1 / (1 - p) : 0), chosen);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::dropoutSpec() {
  return specOf<false>("dropout", "y = x / (1 - p), or 0 with probability p", "x", "y", "any shape",
                       "0 in elements that are left out, whatever x holds there");
}

KernelSpec sectile::dropoutBackwardSpec() {
  return specOf<true>("dropout_backward", "dx = dy / (1 - p), or 0 where dropout gave 0", "dy",
                      "dx", "gradient of y; any shape", "gradient of x");
}
