// What a kernel is called, takes and gives: all that a generic caller (the command line, the
// autotuner, run_kernel) needs to know of one. The library describes its own kernels so, and
// register_kernel() takes yours.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <sectile/config.h>
#include <sectile/error.h>
#include <sectile/reference.h>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sectile {

struct Invocation;
class OptionValues;
class Use;

// An array that the kernel reads or writes.
struct ArgumentSpec {
  std::string name = "";
  bool output = false;
  // An input that may be left out.
  bool optional = false;
  // An output that is there only where this optional input, or this flag among the options, is.
  std::string with = "";
  // The names of its axes. Axes of one name have one extent; one "..." is any number of axes;
  // "1|B" is 1 or as long as B; "3" is 3.
  std::vector<std::string> axes;
  // The axes in the order in which they are stored, where the options change it, or fewer of them,
  // where the options take some away.
  std::function<std::vector<std::string>(std::vector<std::string> axes, const OptionValues &)>
      stored = nullptr;
  std::vector<DType> dtypes = {}; // it may have; the first is the usual one
  std::string like = "";          // instead of dtypes: it has the dtype of this argument; or
  // Works it out from the options and the arguments before it.
  std::function<DType(const Invocation &)> dtype_by = nullptr;
  // Contents that a user might give, for tuning and benchmarks: fills the array. If not said,
  // standard normal numbers, and zeros of integers.
  std::function<void(const Invocation &, HostArray &, std::mt19937_64 &)> sample = nullptr;
  std::string doc = "";
};

// What a caller may choose beside the arrays.
struct OptionSpec {
  enum Kind {
    flag,    // true or false
    number,  // finite
    integer, // of 64 bits
    seed,    // of 64 bits, with or without a sign
    choice   // one of `choices`
  };
  std::string name;
  Kind kind;
  std::string initial; // empty: worked out from the arguments, as doc says
  std::vector<std::string> choices = {};
  std::vector<std::string> samples = {}; // of a number: others than the default that make sense
  std::string doc = "";
};

// A field of the configuration, which decides how fast a kernel is and not what it computes.
struct ConfigSpec {
  std::string name;
  std::string doc = "";
  std::int64_t least = 1, most = 1 << 20; // that it may be
};

// A configuration's fields by name.
using ConfigValues = std::map<std::string, std::int64_t>;

// Values of a kernel's options, checked against their specification.
class OptionValues {
public:
  bool given(const std::string &name) const { return !values.at(name).empty(); }
  bool flag(const std::string &name) const { return values.at(name) == "true"; }
  double number(const std::string &name) const;
  std::int64_t integer(const std::string &name) const;
  std::uint64_t seed(const std::string &name) const; // of -1: 2^64 - 1
  const std::string &choice(const std::string &name) const { return values.at(name); }

  std::map<std::string, std::string> values; // of every option; flags as "true" or "false"
};

// The configurations that the autotuner tries: all combinations of these values that the predicate
// holds for. Fields without an axis are as the defaults say.
struct SearchSpace {
  std::string part = ""; // which of its launches they are for, by name, where it has several
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> axes;
  std::function<bool(const Invocation &, const std::string &target, const ConfigValues &)> where =
      nullptr;
};

struct KernelSpec {
  std::string name;                    // letters, digits and _
  std::string summary;                 // a line, as "y = softmax(x) along the last axis"
  std::vector<ArgumentSpec> arguments; // inputs first
  std::vector<OptionSpec> options;
  std::vector<ConfigSpec> config;
  std::map<std::string, std::int64_t> typical; // extents by axis, where no arrays are given
  std::map<std::string, std::int64_t> small;   // extents that a test runs in a moment
  // Adds the extents that follow from those, the options and the inputs' dtypes.
  std::function<void(Invocation &)> follow = nullptr;

  // What the axes' names do not say; throws InputError.
  std::function<void(const Invocation &)> check;
  // What numbers that lead to places in other arrays may not be; throws InputError. Inputs as for
  // `reference`. Kernels do not check it: their arrays are on the device.
  std::function<void(const Invocation &, std::span<const HostArray> inputs)> contents = nullptr;
  // Adds the extents of axes that only outputs have.
  std::function<void(Invocation &)> derive;
  // All outputs, in order; `inputs` are by their place among the arguments. Axes are in the
  // specification's order, whatever is stored; what is left out is an array of no axes and no data.
  // with_arithmetic() helps. Without a reference, results cannot be checked.
  std::function<std::vector<HostArray>(const Invocation &, std::span<const HostArray> inputs,
                                       Arithmetic)>
      reference;
  // How much further from the exact result than the plain formula an output may be, at most.
  double factor = 2;

  // Good values for all configuration fields on this target.
  std::function<ConfigValues(const Invocation &, const std::string &target)> defaults;
  // Microseconds that it would take with this configuration, by a model of its own; 0 where it has
  // none for this call and target.
  std::function<double(const Invocation &, const std::string &target, const ConfigValues &)>
      predict = nullptr;
  std::vector<SearchSpace> spaces = {}; // one for each of its launches that is worth tuning
  // Fields of the configuration that leave the order of sums as it is, whatever the options; all
  // others change it.
  std::vector<std::string> neutral = {"stages"};
  // Axes that are as long as a batch happens to be. Where the order of sums is fixed, the
  // kernel's own choice does not depend on them.
  std::vector<std::string> batch = {"...", "B",  "M",  "S",      "Sq", "Sk",
                                    "T",   "Tq", "Tk", "blocks", "max"};
  // Additions and multiplications that the result needs at least, where they say more of a time
  // than the bytes that it moves.
  std::function<double(const Invocation &)> flops = nullptr;
  // Launches it, or whatever `use` does with its launches.
  std::function<void(Use &use)> apply;

  // Takes the fields of a configuration struct (SECTILE_CONFIG) as `config`, and what the struct's
  // initialisers say as `defaults`. Docs of the fields are in the same order; there may be fewer.
  // Use::config_as makes such a struct again.
  template <KernelConfig C> void configure(std::vector<std::string> docs = {}) {
    ConfigValues values;
    C initial;
    for_each_field(initial, [&](std::string_view name, auto value) {
      static_assert(!std::is_floating_point_v<decltype(value)>,
                    "a field of a described configuration is an integer, a bool or an enumeration");
      const bool isCount = !std::is_same_v<decltype(value), bool> && std::int64_t(value) >= 1;
      const std::size_t place = config.size();
      config.push_back({.name = std::string(name),
                        .doc = place < docs.size() ? docs[place] : "",
                        .least = isCount ? 1 : 0});
      values[std::string(name)] = static_cast<std::int64_t>(value);
    });
    defaults = [values](const Invocation &, const std::string &) { return values; };
  }
};

// What is known of an array before there is one.
struct TensorType {
  DType dtype = DType::float32;
  Shape shape;         // as stored
  Shape strides = {};  // in elements; empty: dense in row-major order
  bool present = true; // an optional one may not be; its shape is then empty
};

// A kernel with everything settled that a launch needs.
struct Invocation {
  const KernelSpec *kernel = nullptr;
  std::vector<TensorType> tensors; // of all arguments, in order
  std::map<std::string, std::int64_t> extents;
  Shape leading; // what "..." stands for
  OptionValues options;

  std::int64_t extent(const std::string &axis) const { return extents.at(axis); }
  // By an argument's name.
  std::size_t index(std::string_view argument) const;
  const TensorType &tensor(std::string_view argument) const { return tensors[index(argument)]; }
  bool has(std::string_view argument) const { return tensor(argument).present; }
  DType dtype(std::string_view argument) const { return tensor(argument).dtype; }
  // For each of the argument's axes, as specified, its place among the axes as stored.
  std::vector<std::size_t> stored_axes(std::size_t argument) const;
};

} // namespace sectile
