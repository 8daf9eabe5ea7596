// KernelSpec describes a kernel to callers that know it only by name: the command line, the
// autotuner, run_kernel(). The library describes its own kernels with it; register_kernel() takes
// yours.
#pragma once
#include <concepts>
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

// A function that only commands, tests and the autotuner call. In code that is compiled for sealed
// programs it stays empty, so that they do not carry what it was given.
template <class Signature> class CommandFunction;
template <class Result, class... Arguments> class CommandFunction<Result(Arguments...)> {
public:
  using Function = std::function<Result(Arguments...)>;

  CommandFunction() = default;
  template <typename F>
    requires(!std::same_as<std::remove_cvref_t<F>, CommandFunction> &&
             std::constructible_from<Function, F>)
  CommandFunction([[maybe_unused]] F &&f) {
#ifndef SECTILE_SEALED
    function = std::forward<F>(f);
#endif
  }

  explicit operator bool() const { return static_cast<bool>(function); }
  Result operator()(Arguments... arguments) const {
    return function(std::forward<Arguments>(arguments)...);
  }

private:
  Function function; // in sealed programs too: libraries of both kinds share one list of kernels
};

// An array that the kernel reads or writes.
struct ArgumentSpec {
  std::string name = "";
  bool output = false;
  // A caller may leave this input out.
  bool optional = false;
  // The kernel writes this output only if the caller gives this optional input or sets this flag.
  std::string with = "";
  // The names of the axes. Axes with the same name have the same extent. "..." stands for any
  // number of axes, "1|B" for the extent 1 or that of B, and "3" for the extent 3.
  std::vector<std::string> axes;
  // For options that change the layout: gives the axes in the order in which they are stored, or
  // fewer of them if an option drops some.
  std::function<std::vector<std::string>(std::vector<std::string> axes, const OptionValues &)>
      stored = nullptr;
  // Exactly one of these three says the dtype.
  std::vector<DType> dtypes = {}; // one of these; the first is the default
  std::string like = "";          // the dtype of this earlier argument
  // Computes the dtype from the options and the earlier arguments.
  std::function<DType(const Invocation &)> dtype_by = nullptr;
  // Dtypes that an output may have besides, where the caller gives one of such a dtype.
  std::vector<DType> also = {};
  // Fills the array with realistic contents for tuning and benchmarks. By default, floating-point
  // arrays hold standard normal numbers, and integer arrays zeros.
  CommandFunction<void(const Invocation &, HostArray &, std::mt19937_64 &)> sample = nullptr;
  // Inputs that a caller may overwrite with this output: the given output may be such an input's
  // memory, element for element. Calls with any other overlap of an output are refused.
  std::vector<std::string> over = {};
  // This output begins as the only input of `over`, of the same axes and dtype, and the kernel
  // changes a part of it. Sectile copies the input there before the first launch, unless the caller
  // gives the output the input's memory.
  bool updates = false;
  std::string doc = "";
};

// A choice that a caller has besides the arrays.
struct OptionSpec {
  enum Kind {
    flag,    // true or false
    number,  // finite in f32
    integer, // of 64 bits
    seed,    // of 64 bits, with or without a sign
    choice   // one of `choices`
  };
  std::string name;
  Kind kind;
  std::string initial; // the default; empty: the kernel computes one from the arguments (see doc)
  // Computes a default on which the order of stored axes depends. The call has the dtypes of the
  // inputs and which of them are given, but no extents. `initial` must be empty then.
  std::function<std::string(const Invocation &)> initial_by = nullptr;
  std::vector<std::string> choices = {};
  std::string least = "", most = "";     // of a number or integer, inclusive; empty: no bound
  std::vector<std::string> samples = {}; // for a number: other sensible values, for help and tests
  std::string doc = "";
};

// An argument in short: {"w?: [N] like x", "weight"}, {"-> y: [..., N] f32|f16 over x", "result"}.
// After the name come the axes, then the dtypes or `like` and an argument, and then for an output
// `or` and further dtypes, `over` and inputs or `updates` and one input, and `with` and an optional
// input or a flag. "?" marks an optional input, "->" an output. Functions do not fit in the text.
struct ArgumentRow {
  struct Functions {
    decltype(ArgumentSpec::stored) stored = nullptr;
    decltype(ArgumentSpec::dtype_by) dtype_by = nullptr;
    decltype(ArgumentSpec::sample) sample = nullptr;
  };
  std::string text, doc = "";
  Functions functions = {};
};

// An option in short: {"offset: number = 0 e.g. 0.5", "added to every element"}. The kind is flag,
// number, integer, seed or the choices, as mean|max. "= default", then "from least" or "from least
// to most", and then "e.g. samples" may be left out.
struct OptionRow {
  std::string text, doc = "";
  decltype(OptionSpec::initial_by) initial_by = nullptr;
};

// A field of the configuration. It changes how fast a kernel runs, not what it computes.
struct ConfigSpec {
  std::string name;
  std::string doc = "";
  std::int64_t least = 1, most = 1 << 20; // the range of values, inclusive
};

// A configuration's fields by name.
using ConfigValues = std::map<std::string, std::int64_t>;

// The values of a call's options, already checked against their OptionSpec. Each function throws
// std::out_of_range for an option that the kernel does not have.
class OptionValues {
public:
  bool given(std::string_view name) const;
  bool flag(std::string_view name) const;
  double number(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::uint64_t seed(std::string_view name) const; // -1 gives 2^64 - 1
  const std::string &choice(std::string_view name) const;

  std::map<std::string, std::string> values; // for every option; flags are "true" or "false"
};

// The configurations that the autotuner tries: all combinations of these values for which the
// predicate holds. Fields without an axis keep their defaults. The predicate is also asked for each
// call that would take a configuration measured on another call: where a configuration is right
// only for some extents, such as a block that must hold a whole row, the predicate must say so.
struct SearchSpace {
  // The sc::Kernel whose launch is tuned, where calls have several launches; of calls that launch
  // one or another of some, all their names: "sum, sum_in_parts". Others have nothing to tune.
  std::string part = "";
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> axes;
  std::function<bool(const Invocation &, const std::string &target, const ConfigValues &)> where =
      nullptr;
};

struct KernelSpec {
  std::string name;                    // letters, digits and _
  std::string summary;                 // one line: "y = softmax(x) along the last axis"
  std::vector<ArgumentSpec> arguments; // inputs first
  std::vector<OptionSpec> options;
  std::vector<ConfigSpec> config;
  std::map<std::string, std::int64_t> typical; // extents by axis, for commands without arrays
  std::map<std::string, std::int64_t> small;   // extents for a test of a moment
  // Adds extents that follow from `typical`, the options and the inputs' dtypes.
  std::function<void(Invocation &)> follow = nullptr;

  // Fills inputs whose contents follow from those of others, after ArgumentSpec::sample.
  CommandFunction<void(const Invocation &, std::span<HostArray> inputs)> sample_dependent = nullptr;

  // Throws InputError for extents or options that do not go together.
  std::function<void(const Invocation &)> check;
  // Throws InputError for numbers that would lead out of another array, such as a bad index. Inputs
  // are as for `reference`. Called only if the arrays are on the host: launches do not check.
  CommandFunction<void(const Invocation &, std::span<const HostArray> inputs)> contents = nullptr;
  // Adds the extents of axes that only outputs have.
  std::function<void(Invocation &)> derive;
  // Computes all outputs, in order, on the host. `inputs` are in the order of the arguments, with
  // their axes in the order of the specification, whatever is stored. An array that the caller left
  // out has no axes and no data. with_arithmetic() helps. Without a reference, results cannot be
  // checked.
  CommandFunction<std::vector<HostArray>(const Invocation &, std::span<const HostArray> inputs,
                                         Arithmetic)>
      reference;
  // An output's error may be this many times that of Arithmetic::own.
  double factor = 2;

  // Good values for all fields of the configuration on this target.
  std::function<ConfigValues(const Invocation &, const std::string &target)> defaults;
  // The time in microseconds that a model of the kernel's own expects with this configuration; 0 if
  // the model does not cover this call and target.
  CommandFunction<double(const Invocation &, const std::string &target, const ConfigValues &)>
      predict = nullptr;
  std::vector<SearchSpace> spaces = {}; // one for each launch that is worth tuning
  // Fields of the configuration that never change the order of sums. All others may.
  std::vector<std::string> neutral = {"stages"};
  // Axes whose extents depend on the batch. If the order of sums is fixed, the kernel's own choice
  // of a configuration ignores them.
  std::vector<std::string> batch = {"...", "B",  "M",  "S",      "Sq", "Sk",
                                    "T",   "Tq", "Tk", "blocks", "max"};
  // The additions and multiplications that the result needs at least. Benchmarks report them, for
  // kernels that arithmetic bounds rather than memory.
  CommandFunction<double(const Invocation &)> flops = nullptr;
  // Launches the kernel, by `use` alone: it is also called to compile, to bind and to tune, then
  // with typical extents and without memory.
  std::function<void(Use &use)> apply;

  // Append what the rows describe. Throw InputError for a row that cannot be read.
  void add_arguments(const std::vector<ArgumentRow> &rows);
  void add_options(const std::vector<OptionRow> &rows);
  // Appends the outputs of a backward kernel: for each of these inputs x its gradient dx, of the
  // same axes and dtype, which of an optional input exists only with the input. Throws InputError
  // if there is no such input.
  void add_gradients(const std::vector<std::string> &inputs);

  // Fills `config` with the fields of a configuration struct, and `defaults` with the values of its
  // initialisers. `docs` describe the fields, in order; there may be fewer.
  // Use::config_as<C>() gives the struct back in `apply`.
  template <KernelConfig C> void configure(std::vector<std::string> docs = {}) {
    ConfigValues values;
    C initial;
    for_each_field(initial, [&](std::string_view name, auto value) {
      static_assert(!std::is_floating_point_v<decltype(value)>,
                    "a field of a described configuration is an integer, a bool or an enumeration");
      const auto number = static_cast<std::int64_t>(value);
      const bool isCount = std::is_integral_v<decltype(value)> &&
                           !std::is_same_v<decltype(value), bool> && number > 0;
      const std::size_t place = config.size();
      config.push_back({.name = std::string(name),
                        .doc = place < docs.size() ? docs[place] : "",
                        .least = isCount      ? 1
                                 : number < 0 ? number
                                              : 0});
      values[std::string(name)] = number;
    });
    defaults = [values](const Invocation &, const std::string &) { return values; };
  }
};

// A KernelSpec::reference that calls formula(numbers, call, inputs), with the NumbersOf<...> for
// the dtype of the first input.
template <class Formula> auto reference_of(Formula formula) {
  return
      [formula](const Invocation &call, std::span<const HostArray> inputs, Arithmetic arithmetic) {
        return with_arithmetic(inputs[0].dtype, arithmetic,
                               [&](auto numbers) { return formula(numbers, call, inputs); });
      };
}

// The type of an argument in a call.
struct TensorType {
  DType dtype = DType::float32;
  Shape shape;         // as stored
  Shape strides = {};  // in elements; empty: dense in row-major order
  bool present = true; // false if the caller left it out; the shape is then empty
};

// A call of a kernel: everything that a launch needs except the memory and the configuration.
struct Invocation {
  const KernelSpec *kernel = nullptr;
  std::vector<TensorType> tensors; // of all arguments, in order
  std::map<std::string, std::int64_t> extents;
  Shape leading; // what "..." stands for
  OptionValues options;

  std::int64_t extent(std::string_view axis) const; // throws std::out_of_range if none is named so
  // By an argument's name.
  std::size_t index(std::string_view argument) const;
  const TensorType &tensor(std::string_view argument) const { return tensors[index(argument)]; }
  bool has(std::string_view argument) const { return tensor(argument).present; }
  DType dtype(std::string_view argument) const { return tensor(argument).dtype; }
  // For each of the argument's axes, as specified, its place among the axes as stored.
  std::vector<std::size_t> stored_axes(std::size_t argument) const;
};

} // namespace sectile
