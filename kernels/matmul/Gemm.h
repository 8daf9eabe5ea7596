// What the kernels of this family share: arguments and options of the epilogue, the general kernel,
// the references.
#pragma once
#include "kernels/Use.h"
#include "kernels/matmul/Epilogue.h"
#include <cmath>

namespace sectile {

// What products of T are summed in.
template <class T> using SumOf = detail::GemmSum<T>;

// The optional inputs of the epilogue, for outputs of these axes ({"M", "N"}, {"B", "M", "N"}).
std::vector<ArgumentSpec> epilogueInputs(const std::vector<std::string> &axes);
// The option of that name, which its last step has.
OptionSpec activationOption();
// Its options, and `out`.
std::vector<OptionSpec> epilogueOptions();
// The dtype that `out` says for products of operands of this dtype.
DType outputType(DType operands, const OptionValues &options, bool epilogue);
EpilogueParts epilogueParts(const Invocation &call);

// What products of operands with scales of their own end in, act(sums + bias): those arguments, the
// second with this description, and options, of which `out` says the dtype.
std::vector<ArgumentSpec> scaledResult(const char *doc);
std::vector<OptionSpec> scaledResultOptions();

// Element by element on the host, after the sums; what a chain of unfused kernels would keep in
// memory is rounded by `store`.
struct EpilogueReference {
  explicit EpilogueReference(const Invocation &call) : parts(epilogueParts(call)) {
    alpha = call.options.number("alpha");
    beta = call.options.number("beta");
  }
  EpilogueParts parts;
  double alpha, beta;

  template <class Numbers, class T>
  T operator()(const Numbers &numbers, T x, T rowScale, T columnScale, T residual, T bias) const {
    x = numbers.store(x);
    if (parts.rowScale)
      x = numbers.store(x * rowScale);
    if (parts.columnScale)
      x = numbers.store(x * columnScale);
    if (parts.scaled)
      x = numbers.store(x * static_cast<T>(alpha));
    if (parts.residual)
      x = numbers.store(x + numbers.store(static_cast<T>(beta) * residual));
    if (parts.bias)
      x = numbers.store(x + bias);
    return activate(parts.activation, x);
  }
};

// Arguments are a, b, those of epilogueInputs, c.
HostArray gemmReference(const Invocation &call, std::span<const HostArray> inputs,
                        Arithmetic arithmetic);
HostArray groupedMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                 Arithmetic arithmetic);
HostArray groupedMatmulDrhsReference(const Invocation &call, std::span<const HostArray> inputs,
                                     Arithmetic arithmetic);
HostArray scaledMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                Arithmetic arithmetic);
HostArray mxMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                            Arithmetic arithmetic);
HostArray quantizedMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                   Arithmetic arithmetic);

inline bool isFp8(DType dtype) { return is_floating(dtype) && size_of(dtype) == 1; }

// Adds row [K] times columns [K, N], of fp8, to sums [N] as the default precision of a dot may do
// it (docs/language.md, "Sums of fp8 products"). Rows of columns are `stride` apart.
void addProductsOfFp8(std::span<const float> row, const float *columns, std::int64_t stride,
                      std::span<float> sums);

// The last two axes the other way round where the flag is set.
std::function<std::vector<std::string>(std::vector<std::string>, const OptionValues &)>
swappedBy(const char *flag);
// The whole of the two kernels' specifications but names and the launch of the plain product.
void specifyGemm(KernelSpec &spec, bool batched);
// a, b and the rest of the arguments through the general kernel.
void launchGemm(Use &use, bool batched);

} // namespace sectile
