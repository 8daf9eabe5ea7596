// What the library's kernels are called, take and give: all that a generic caller (the command
// line, the autotuner, a test over every kernel) needs to know of one.
#pragma once
#include "kernels/HostArray.h"
#include "kernels/References.h"
#include <functional>
#include <map>
#include <optional>
#include <sectile/buffer.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

struct Invocation;
struct Use;

struct ArgumentSpec {
  std::string name = "";
  bool output = false;
  // The names of its axes. Axes of one name have one extent; a first "..." is any number of axes.
  std::vector<std::string> axes;
  std::vector<DType> dtypes = {}; // it may have; the first is the usual one
  std::string like = "";          // instead of dtypes: it has the dtype of this argument
  std::string swappedBy = "";     // a flag among the options that swaps its last two axes
  std::string doc = "";
};

struct OptionSpec {
  enum Kind { flag, number, choice };
  std::string name;
  Kind kind;
  std::string initial; // empty: worked out from the arguments, as doc says
  std::vector<std::string> choices = {};
  std::string doc = "";
};

struct ConfigSpec {
  std::string name;
  std::string doc = "";
};

using Config = std::map<std::string, std::int64_t>;

// Values of a kernel's options, checked against their specification.
class OptionValues {
public:
  bool given(const std::string &name) const { return !values.at(name).empty(); }
  bool flag(const std::string &name) const { return values.at(name) == "true"; }
  double number(const std::string &name) const;
  const std::string &choice(const std::string &name) const { return values.at(name); }

  std::map<std::string, std::string> values; // of every option; flags as "true" or "false"
};

// The configurations that the autotuner tries: all combinations of these values that the predicate
// holds for. Fields without an axis are as the defaults say.
struct SearchSpace {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> axes;
  std::function<bool(const Invocation &, const std::string &target, const Config &)> where;
};

struct KernelSpec {
  std::string name, summary;
  std::vector<ArgumentSpec> arguments; // inputs first
  std::vector<OptionSpec> options;
  std::vector<ConfigSpec> config;
  std::map<std::string, std::int64_t> typical; // extents to compile for where no arrays are given

  // What the axes' names do not say; throws InputError.
  std::function<void(const Invocation &)> check;
  std::function<std::vector<HostArray>(const Invocation &, std::span<const HostArray> inputs,
                                       Arithmetic)>
      reference; // all outputs, in order

  // Good values for all configuration fields on this target.
  std::function<Config(const Invocation &, const std::string &target)> defaults;
  SearchSpace space = {};
  // Launches it or gives its code, as `use` says; `memory` holds the arguments, in order.
  std::function<void(const Invocation &, const Config &, std::span<const detail::Memory> memory,
                     Use &use)>
      apply;
};

struct TensorType {
  DType dtype = DType::float32;
  Shape shape;
};

// A kernel with everything settled that a launch needs.
struct Invocation {
  const KernelSpec *kernel = nullptr;
  std::vector<TensorType> tensors; // of all arguments, in order
  std::map<std::string, std::int64_t> extents;
  Shape leading; // what "..." stands for
  OptionValues options;

  std::int64_t extent(const std::string &axis) const { return extents.at(axis); }
};

// In the order in which users meet them.
const std::vector<KernelSpec> &kernelRegistry();
// Throws InputError with the known names.
const KernelSpec &findKernel(std::string_view name);

// An input as a user gave it; `where` is its file, for messages.
struct GivenTensor {
  TensorType type;
  std::string where;
};
using Assignments = std::vector<std::pair<std::string, std::string>>; // NAME=VALUE, in order

// Checks names, dtypes, ranks, extents and options, and works out the outputs. Throws InputError.
Invocation resolve(const KernelSpec &kernel, const std::map<std::string, GivenTensor> &inputs,
                   const Assignments &options);
// The same without arrays: the kernel's typical extents, but for those named, and one dtype for all
// arguments that have a choice (the usual one where empty).
Invocation resolveTypical(const KernelSpec &kernel, std::string_view dtype,
                          const std::map<std::string, std::int64_t> &extents,
                          const Assignments &options);
// Values for the kernel's configuration, by name. Throws InputError.
// Those given, and the kernel's own choice for the others.
Config completeConfig(const Invocation &call, const std::string &target, const Config &given);
Config parseConfig(const KernelSpec &kernel, const Assignments &assignments);

// Without them a dot is done by multiply-adds, whose tiles are better small.
bool hasMatrixUnits(const std::string &target);
std::int64_t warpSize(const std::string &target);

std::optional<DType> parseDType(std::string_view name);
std::string dtypeNames(std::span<const DType> dtypes); // "f16, bf16 or f32"

} // namespace sectile
