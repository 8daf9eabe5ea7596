// The list of kernels, and looking one up.
#include "kernels/registry/Registry.h"
#include "kernels/registry/Families.h"
#include "kernels/registry/KernelFamilies.h"
#include "kernels/registry/SpecCheck.h"
#include "runtime/Chip.h"
#include "runtime/KernelList.h"
#include "runtime/Numerals.h"
#include <algorithm>
#include <mutex>
#include <numeric>
#include <sectile/error.h>
#include <sectile/register_kernel.h>
#include <sectile/version.h>
#include <stdexcept>

using namespace sectile;

namespace {
struct Family {
  const char *name;
  std::vector<KernelSpec> (*kernels)();
};
constexpr Family families[] = {{"elementwise", elementwiseKernels},
                               {"norms", normKernels},
                               {"products", matmulKernels},
                               {"quantisation", quantizeKernels},
                               {"convolutions", convKernels},
                               {"attention", attentionKernels},
                               {"serving", servingKernels},
                               {"sampling", samplingKernels},
                               {"mixtures of experts", expertKernels},
                               {"several devices", ringKernels},
                               {"positions", positionKernels},
                               {"pooling", poolingKernels},
                               {"recurrent networks", recurrentKernels},
                               {"collections", collectionKernels}};

} // namespace

struct sectile::KernelList {
  std::mutex mutex; // guards the lists; a kernel that is there stays as and where it is
  std::deque<KernelSpec> kernels;
  std::vector<KernelFamily> byFamily;

  KernelList() {
    for (const Family &family : families)
      for (KernelSpec &kernel : family.kernels())
        add(std::move(kernel), family.name);
  }

  void add(KernelSpec kernel, std::string_view family) {
    kernels.push_back(std::move(kernel));
    auto place = std::find_if(byFamily.begin(), byFamily.end(),
                              [&](const KernelFamily &one) { return one.name == family; });
    if (place == byFamily.end())
      place = byFamily.insert(place, {std::string(family), {}});
    place->kernels.push_back(&kernels.back());
  }

  const KernelSpec *find(std::string_view name) const {
    for (const KernelSpec &kernel : kernels)
      if (kernel.name == name)
        return &kernel;
    return nullptr;
  }
};

namespace {
#ifdef SECTILE_SEALED
constexpr bool canBeTraced = false;
#else
constexpr bool canBeTraced = true;
#endif

KernelList *makeList() { return new KernelList; }

const bool isOffered = (runtime::offerKernels(makeList, canBeTraced), true);

KernelList &registry() {
  // Static objects that are initialised before ours may look for a kernel, too.
  if (!isOffered)
    runtime::offerKernels(makeList, canBeTraced);
  return runtime::kernelList();
}

// How many letters one word must have replaced, inserted or left out to become the other.
std::size_t editDistance(std::string_view from, std::string_view to) {
  // Of what was read of `from` to each start of `to`.
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}
} // namespace

const std::deque<KernelSpec> &sectile::kernelRegistry() { return registry().kernels; }

const std::vector<KernelFamily> &sectile::kernelFamilies() { return registry().byFamily; }

std::size_t sectile::countKernels() {
  KernelList &all = registry();
  std::lock_guard lock(all.mutex);
  return all.kernels.size();
}

const KernelSpec *sectile::kernelAt(std::size_t index) {
  KernelList &all = registry();
  std::lock_guard lock(all.mutex);
  return index < all.kernels.size() ? &all.kernels[index] : nullptr;
}

std::string sectile::familyOf(const KernelSpec &kernel) {
  KernelList &all = registry();
  std::lock_guard lock(all.mutex);
  for (const KernelFamily &family : all.byFamily)
    if (std::ranges::find(family.kernels, &kernel) != family.kernels.end())
      return family.name;
  throw std::logic_error(kernel.name + " is in no family");
}

const KernelSpec &sectile::findKernel(std::string_view name) {
  KernelList &all = registry();
  std::lock_guard lock(all.mutex);
  if (const KernelSpec *kernel = all.find(name))
    return *kernel;
  const KernelSpec *nearest = nullptr;
  std::size_t distance = 0;
  for (const KernelSpec &kernel : all.kernels) {
    const std::size_t far = editDistance(name, kernel.name);
    if (!nearest || far < distance)
      nearest = &kernel, distance = far;
  }
  // More wrong letters than this, and another name is no better a guess.
  const bool isGuess = distance <= std::max<std::size_t>(1, name.size() / 3);
  throw InputError(
      "there is no kernel '" + std::string(name) + "'; " +
      (isGuess ? "is it '" + nearest->name + "'?" : "`sectile list` names those of the library"));
}

void sectile::detail::registerKernel(KernelSpec &kernel, std::string_view family,
                                     std::uint64_t layout) {
  if (layout != descriptionLayout)
    throw InputError("a kernel was described by the headers of another version of Sectile than " +
                     std::string(version()) + ": build its library again with those of this one");
  completeSpec(kernel);
  KernelList &all = registry();
  std::lock_guard lock(all.mutex);
  if (all.find(kernel.name))
    throw InputError("there is a kernel '" + kernel.name + "' already");
  all.add(std::move(kernel), family);
}

// The elements that operands of a type are multiplied as, those of the first choice first.
static std::vector<MmaElement> elementsFor(DType dtype) {
  switch (dtype) {
  case DType::float64:
    return {MmaElement::F64};
  case DType::float32:
    return {MmaElement::TF32, MmaElement::F32};
  default:
    return {MmaElement::F16};
  }
}

bool sectile::hasMatrixUnits(const std::string &target, DType dtype) {
  if (target == "interpreter")
    return false;
  return std::ranges::any_of(elementsFor(dtype), [&](MmaElement element) {
    return Chip::known(target).multiplies(element);
  });
}

bool sectile::hasWarpgroupUnits(const std::string &target, DType dtype, bool alongK) {
  const std::pair<DType, MmaElement> elements[] = {
      {DType::float16, MmaElement::F16},        {DType::bfloat16, MmaElement::BF16},
      {DType::float32, MmaElement::TF32},       {DType::float8_e4m3, MmaElement::F8E4M3},
      {DType::float8_e5m2, MmaElement::F8E5M2}, {DType::int8, MmaElement::I8}};
  const auto *known = std::ranges::find(elements, dtype, &std::pair<DType, MmaElement>::first);
  return target != "interpreter" && known != std::end(elements) &&
         Chip::known(target).warpgroupMultiplies(known->second, alongK);
}

std::int64_t sectile::warpSize(const std::string &target) {
  return target == "interpreter" ? 32 : Chip::known(target).warpSize;
}

std::int64_t sectile::multiprocessors(const std::string &target) {
  const unsigned count = target == "interpreter" ? 0 : Chip::known(target).multiprocessors;
  return std::max(count, 1u);
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

std::size_t Invocation::index(std::string_view argument) const {
  for (std::size_t i = 0; i < kernel->arguments.size(); ++i)
    if (kernel->arguments[i].name == argument)
      return i;
  throw std::logic_error(kernel->name + " has no argument " + std::string(argument));
}

std::vector<std::size_t> Invocation::stored_axes(std::size_t argument) const {
  const ArgumentSpec &spec = kernel->arguments[argument];
  std::vector<std::size_t> places(tensors[argument].shape.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (!spec.stored || !tensors[argument].present)
    return places;
  const std::vector<std::string> stored = spec.stored(spec.axes, options);
  if (stored.size() < spec.axes.size())
    return places;
  for (std::size_t i = 0; i < spec.axes.size(); ++i)
    places[i] = static_cast<std::size_t>(std::find(stored.begin(), stored.end(), spec.axes[i]) -
                                         stored.begin());
  return places;
}

std::int64_t Invocation::extent(std::string_view axis) const {
  return extents.at(std::string(axis));
}

const std::string &OptionValues::choice(std::string_view name) const {
  return values.at(std::string(name));
}

bool OptionValues::given(std::string_view name) const { return !choice(name).empty(); }
bool OptionValues::flag(std::string_view name) const { return choice(name) == "true"; }
std::int64_t OptionValues::integer(std::string_view name) const { return std::stoll(choice(name)); }
std::uint64_t OptionValues::seed(std::string_view name) const { return std::stoull(choice(name)); }

double OptionValues::number(std::string_view name) const {
  return runtime::numberIn(choice(name)).value();
}
