// The list of kernels, and looking one up.
#include "kernels/Registry.h"
#include "ir/Target.h"
#include "kernels/Families.h"
#include "kernels/InputError.h"

using namespace sectile;

const std::vector<KernelSpec> &sectile::kernelRegistry() {
  static const std::vector<KernelSpec> kernels{vectorAddSpec(), softmaxSpec(), layerNormSpec(),
                                               matmulSpec(), attentionSpec()};
  return kernels;
}

const KernelSpec &sectile::findKernel(std::string_view name) {
  std::string known;
  for (const KernelSpec &kernel : kernelRegistry()) {
    if (kernel.name == name)
      return kernel;
    known += (known.empty() ? "" : ", ") + kernel.name;
  }
  throw InputError("there is no kernel '" + std::string(name) + "'; the library has " + known);
}

bool sectile::hasMatrixUnits(const std::string &target) {
  return target != "interpreter" && !llvm::cantFail(Target::get(target)).mmaShapes.empty();
}

std::int64_t sectile::warpSize(const std::string &target) {
  return target == "interpreter" ? 32 : llvm::cantFail(Target::get(target)).warpSize;
}

std::optional<DType> sectile::parseDType(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::float64); ++i)
    if (name_of(static_cast<DType>(i)) == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

std::string sectile::dtypeNames(std::span<const DType> dtypes) {
  std::string text;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    if (i)
      text += i + 1 == dtypes.size() ? " or " : ", ";
    text += name_of(dtypes[i]);
  }
  return text;
}

double OptionValues::number(const std::string &name) const { return std::stod(values.at(name)); }
