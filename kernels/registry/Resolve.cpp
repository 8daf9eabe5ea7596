// From what a user gave to a checked invocation. Each refusal is a sentence that says which
// argument or option, what it is, and what would do.
#include "kernels/registry/Registry.h"
#include "runtime/Numerals.h"
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sectile/error.h>
#include <sectile/tuning.h>
#include <utility>

namespace sectile {

void refuse(const Invocation &call, std::string_view what) {
  throw InputError(call.kernel->name + ": " + std::string(what));
}

void refuse(const Invocation &call, std::initializer_list<RefusalPart> parts) {
  std::string what;
  for (const RefusalPart &part : parts)
    what += part.text ? std::string(*part.text) : std::to_string(part.number);
  refuse(call, what);
}

namespace {

std::string bracketed(const std::vector<std::string> &axes) {
  std::string text = "[";
  for (std::size_t i = 0; i < axes.size(); ++i)
    text += (i ? ", " : "") + axes[i];
  return text + "]";
}

template <class Specs> std::string namesOf(const Specs &specs) {
  std::string text;
  for (const auto &spec : specs)
    text += (text.empty() ? "" : ", ") + spec.name;
  return text.empty() ? "none" : text;
}

template <class Specs> auto findSpec(const Specs &specs, std::string_view name) {
  return std::find_if(specs.begin(), specs.end(), [&](const auto &s) { return s.name == name; });
}

// "sq" is Sq.
bool sameLetters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

DType usualTypeIn(const Invocation &call, const ArgumentSpec &spec) {
  return spec.dtype_by       ? spec.dtype_by(call)
         : spec.like.empty() ? spec.dtypes.front()
                             : call.dtype(spec.like);
}

class Resolver {
public:
  explicit Resolver(const KernelSpec &kernel) { result.kernel = &kernel; }

  void options(const Assignments &given) {
    const auto &specs = result.kernel->options;
    for (const OptionSpec &spec : specs)
      result.options.values[spec.name] = spec.initial;
    for (const auto &[name, value] : given) {
      auto spec = findSpec(specs, name);
      if (spec == specs.end())
        fail("there is no option '" + name + "'; its options are " + namesOf(specs));
      result.options.values[name] = optionValue(*spec, value);
    }
  }

  // The defaults that the inputs decide. `given` has no extents.
  void defaults(Invocation given) {
    for (const OptionSpec &spec : result.kernel->options) {
      std::string &value = result.options.values[spec.name];
      if (!spec.initial_by || !value.empty())
        continue;
      given.kernel = result.kernel;
      given.options = result.options;
      value = optionValue(spec, spec.initial_by(given));
    }
  }

  void inputNames(const std::map<std::string, GivenTensor> &inputs) {
    std::vector<ArgumentSpec> known;
    for (const ArgumentSpec &spec : result.kernel->arguments)
      if (!spec.output)
        known.push_back(spec);
    for (const auto &[name, tensor] : inputs)
      if (findSpec(known, name) == known.end())
        fail("there is no input '" + name + "' (given by '" + tensor.where + "'); its inputs are " +
             namesOf(known));
    for (const ArgumentSpec &spec : known)
      if (!spec.optional && !inputs.contains(spec.name))
        fail("the input '" + spec.name + "' is missing; its inputs are " + namesOf(known));
  }

  void input(const ArgumentSpec &spec, const GivenTensor &given) {
    const std::string who = spec.name + (given.where.empty() ? "" : " ('" + given.where + "')");
    dtype(spec, given.type.dtype, who);
    extents(spec, given.type.shape, who);
    result.tensors.push_back(given.type);
  }

  void missing(const ArgumentSpec &spec) {
    TensorType type;
    type.dtype = usualType(spec);
    type.present = false;
    result.tensors.push_back(std::move(type));
  }

  // What the outputs' axes need that no input has.
  void derive() {
    if (result.kernel->derive)
      result.kernel->derive(result);
  }

  void output(const ArgumentSpec &spec) {
    if (!wanted(spec))
      return missing(spec);
    TensorType type;
    type.dtype = usualType(spec);
    // An input's gradient is as long as the input where that may be 1.
    for (const std::string &axis : axesOf(spec)) {
      if (axis == "...")
        type.shape.insert(type.shape.end(), result.leading.begin(), result.leading.end());
      else if (axis.starts_with("1|"))
        type.shape.push_back(broadcast.at(spec.with + axis));
      else
        type.shape.push_back(isNumber(axis) ? std::stoll(axis) : result.extents.at(axis));
    }
    result.tensors.push_back(std::move(type));
  }

  const OptionValues &optionValues() const { return result.options; }

  Invocation finish() {
    if (result.kernel->check)
      result.kernel->check(result);
    return std::move(result);
  }

  std::vector<std::string> axesOf(const ArgumentSpec &spec) const {
    return spec.stored ? spec.stored(spec.axes, result.options) : spec.axes;
  }

  // The dtype where nobody gives one.
  DType usualType(const ArgumentSpec &spec) const { return usualTypeIn(result, spec); }

  [[noreturn]] void fail(const std::string &what) const {
    throw InputError(result.kernel->name + ": " + what);
  }

private:
  static bool isNumber(const std::string &axis) {
    return std::isdigit(static_cast<unsigned char>(axis[0])) && axis.find('|') == std::string::npos;
  }

  bool wanted(const ArgumentSpec &spec) const {
    if (spec.with.empty())
      return true;
    const auto option = result.options.values.find(spec.with);
    return option != result.options.values.end() ? option->second == "true" : result.has(spec.with);
  }

  template <std::integral I> static bool is(const std::string &text) {
    I number = 0;
    const char *last = text.data() + text.size();
    return std::from_chars(text.data(), last, number) == std::from_chars_result{last, std::errc()};
  }

  void checkRange(const OptionSpec &spec, const std::string &value) const {
    const double number = *runtime::numberIn(value);
    if ((!spec.least.empty() && number < *runtime::numberIn(spec.least)) ||
        (!spec.most.empty() && number > *runtime::numberIn(spec.most)))
      fail("option '" + spec.name + "' is " + value + ", but must be " +
           (spec.most.empty() ? "at least " + spec.least
                              : "from " + spec.least + " to " + spec.most));
  }

  std::string optionValue(const OptionSpec &spec, const std::string &value) const {
    switch (spec.kind) {
    case OptionSpec::flag:
      if (value == "true" || value == "1")
        return "true";
      if (value == "false" || value == "0")
        return "false";
      fail("option '" + spec.name + "' is true or false, not '" + value + "'");
    case OptionSpec::number: {
      const std::optional<double> number = runtime::numberIn(value);
      if (!number || !std::isfinite(*number))
        fail("option '" + spec.name + "' is a number, not '" + value + "'");
      if (std::fabs(*number) > std::numeric_limits<float>::max())
        fail("option '" + spec.name + "' is " + value + ", which is more than f32 holds");
      if (*number != 0 && static_cast<float>(*number) == 0)
        fail("option '" + spec.name + "' is " + value + ", which f32 rounds to 0");
      checkRange(spec, value);
      return value;
    }
    case OptionSpec::integer:
      if (!is<std::int64_t>(value))
        fail("option '" + spec.name + "' is a whole number, not '" + value + "'");
      checkRange(spec, value);
      return value;
    case OptionSpec::seed:
      if (!is<std::int64_t>(value) && !is<std::uint64_t>(value))
        fail("option '" + spec.name + "' is a whole number of 64 bits, not '" + value + "'");
      return value;
    case OptionSpec::choice:
      break;
    }
    if (std::find(spec.choices.begin(), spec.choices.end(), value) == spec.choices.end()) {
      std::string known;
      for (const std::string &choice : spec.choices)
        known += (known.empty() ? "" : ", ") + choice;
      fail("option '" + spec.name + "' cannot be '" + value + "'; it can be " + known);
    }
    return value;
  }

  void dtype(const ArgumentSpec &spec, DType type, const std::string &who) const {
    if (spec.dtype_by || !spec.like.empty()) {
      const DType wanted = usualType(spec);
      if (type != wanted)
        fail(who + " is " + std::string(name_of(type)) + ", but must be " +
             std::string(name_of(wanted)) +
             (spec.like.empty() ? " with these options" : " like " + spec.like));
      return;
    }
    if (std::find(spec.dtypes.begin(), spec.dtypes.end(), type) == spec.dtypes.end()) {
      // bfloat16 arrays come from files as u16.
      bool raw = type == DType::uint16 && std::find(spec.dtypes.begin(), spec.dtypes.end(),
                                                    DType::bfloat16) != spec.dtypes.end();
      fail(who + " is " + std::string(name_of(type)) + ", but must be " + dtypeNames(spec.dtypes) +
           (raw ? " (if it holds raw bfloat16, say --dtype " + spec.name + "=bf16)" : ""));
    }
  }

  void extents(const ArgumentSpec &spec, const Shape &shape, const std::string &who) {
    std::vector<std::string> axes = axesOf(spec);
    const auto dots = std::find(axes.begin(), axes.end(), "...");
    const bool anyNumber = dots != axes.end();
    const std::size_t named = axes.size() - anyNumber;
    if (anyNumber ? shape.size() < named : shape.size() != named)
      fail(who + " is " + toString(shape) + ", but must have " + (anyNumber ? "at least " : "") +
           std::to_string(named) + (named == 1 ? " axis: " : " axes: ") + bracketed(axes));
    const std::size_t leadingCount = shape.size() - named;
    if (anyNumber) {
      const auto first = shape.begin() + (dots - axes.begin());
      Shape leading(first, first + static_cast<std::ptrdiff_t>(leadingCount));
      if (!leadingFrom.empty() && leading != result.leading)
        fail(who + " is " + toString(shape) + ", which does not fit " + leadingFrom);
      if (leadingFrom.empty())
        leadingFrom = describe(who, shape);
      result.leading = std::move(leading);
    }
    for (std::size_t i = 0, at = 0; i < axes.size(); ++i) {
      std::string axis = axes[i];
      if (axis == "...") {
        at += leadingCount;
        continue;
      }
      const std::int64_t extent = shape[at++];
      if (isNumber(axis)) {
        if (extent != std::stoll(axis))
          fail(describe(who, shape) + " must be " + bracketed(axes));
        continue;
      }
      if (axis.starts_with("1|")) {
        broadcast[spec.name + axis] = extent;
        if (extent == 1)
          continue;
        axis.erase(0, 2);
      }
      auto [known, isNew] = result.extents.try_emplace(axis, extent);
      if (isNew)
        extentFrom[axis] = describe(who, shape);
      else if (known->second != extent)
        fail(axis + " is " + std::to_string(extent) + " in " + describe(who, shape) + ", but " +
             std::to_string(known->second) + " in " + extentFrom[axis] + "; " + spec.name + " is " +
             bracketed(axes) + otherOrders(spec));
    }
  }

  // How else an argument may be stored, by the kernel's flags.
  std::string otherOrders(const ArgumentSpec &spec) const {
    std::string text;
    if (!spec.stored)
      return text;
    for (const OptionSpec &option : result.kernel->options) {
      if (option.kind != OptionSpec::flag)
        continue;
      OptionValues others = result.options;
      std::string &value = others.values[option.name];
      value = value == "true" ? "false" : "true";
      if (const auto axes = spec.stored(spec.axes, others); axes != axesOf(spec))
        text += ", or " + bracketed(axes) + " with " + option.name + "=" + value;
    }
    return text;
  }

  static std::string describe(const std::string &who, const Shape &shape) {
    return who + " " + toString(shape);
  }

  Invocation result;
  std::string leadingFrom;                       // which argument settled "..."
  std::map<std::string, std::string> extentFrom; // and each extent
  std::map<std::string, std::int64_t> broadcast; // of "1|B" by the argument's name and that
};

} // namespace

void checkOption(const KernelSpec &kernel, const std::string &name, const std::string &value) {
  Resolver(kernel).options({{name, value}});
}

Invocation resolve(const KernelSpec &kernel, const std::map<std::string, GivenTensor> &inputs,
                   const Assignments &options) {
  Resolver resolver(kernel);
  resolver.options(options);
  resolver.inputNames(inputs);
  Invocation dtypes;
  for (const ArgumentSpec &spec : kernel.arguments) {
    const auto given = inputs.find(spec.name);
    const bool present = given != inputs.end();
    dtypes.tensors.push_back({.dtype = present ? given->second.type.dtype : DType::float32,
                              .shape = {},
                              .present = present});
  }
  resolver.defaults(std::move(dtypes));
  bool derived = false;
  for (const ArgumentSpec &spec : kernel.arguments) {
    if (spec.output && !std::exchange(derived, true))
      resolver.derive();
    if (spec.output)
      resolver.output(spec);
    else if (auto given = inputs.find(spec.name); given != inputs.end())
      resolver.input(spec, given->second);
    else
      resolver.missing(spec);
  }
  return resolver.finish();
}

Invocation resolveTypical(const KernelSpec &kernel, std::string_view dtype,
                          const std::map<std::string, std::int64_t> &extents,
                          const Assignments &options, const std::vector<std::string> &with) {
  Resolver resolver(kernel);
  resolver.options(options);
  for (const std::string &name : with) {
    auto spec = findSpec(kernel.arguments, name);
    if (spec == kernel.arguments.end() || !spec->optional)
      resolver.fail("there is no optional input '" + name + "'");
  }
  std::optional<DType> type;
  std::map<std::string, DType, std::less<>> types; // of the arguments named
  for (std::string_view rest = dtype; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(equals == word.npos ? 0 : equals + 1);
    const std::optional<DType> one = parseDType(name);
    if (!one)
      throw InputError("there is no dtype '" + std::string(name) + "'");
    if (equals == word.npos)
      type = one;
    else
      types.insert_or_assign(std::string(word.substr(0, equals)), *one);
  }
  for (const auto &[name, unused] : types)
    if (auto spec = findSpec(kernel.arguments, name);
        spec == kernel.arguments.end() || spec->output)
      resolver.fail("there is no input '" + name + "' to have a dtype");
  Invocation planned;
  planned.kernel = &kernel;
  planned.extents = kernel.typical;
  planned.options = resolver.optionValues();
  for (const ArgumentSpec &spec : kernel.arguments) {
    if (spec.output)
      break;
    TensorType &tensor = planned.tensors.emplace_back();
    tensor.present = !spec.optional || std::find(with.begin(), with.end(), spec.name) != with.end();
    const bool isOwn = !spec.dtype_by && spec.like.empty(), isFirst = planned.tensors.size() == 1;
    if (auto own = types.find(spec.name); own != types.end())
      tensor.dtype = own->second;
    else if (isOwn && type &&
             (isFirst ||
              std::find(spec.dtypes.begin(), spec.dtypes.end(), *type) != spec.dtypes.end()))
      tensor.dtype = *type;
    else
      tensor.dtype = usualTypeIn(planned, spec);
  }
  resolver.defaults(planned);
  planned.options = resolver.optionValues();
  // What is named holds for what follows from it, and against what follows from others.
  const auto named = [&](const std::string &axis) {
    auto given = std::find_if(extents.begin(), extents.end(),
                              [&](const auto &each) { return sameLetters(each.first, axis); });
    return given == extents.end() ? std::nullopt : std::optional(given->second);
  };
  const auto takeNamed = [&] {
    for (auto &[axis, extent] : planned.extents)
      extent = named(axis).value_or(extent);
  };
  takeNamed();
  if (kernel.follow)
    kernel.follow(planned);
  takeNamed();
  for (const auto &[axis, extent] : extents)
    if (std::none_of(planned.extents.begin(), planned.extents.end(),
                     [&](const auto &known) { return sameLetters(known.first, axis); })) {
      std::string known;
      for (const auto &[name, unused] : planned.extents)
        known += (known.empty() ? "" : ", ") + name;
      resolver.fail("there is no axis '" + axis + "'; its axes are " + known);
    }
  bool derived = false;
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
    const ArgumentSpec &spec = kernel.arguments[i];
    if (spec.output && !std::exchange(derived, true))
      resolver.derive();
    if (spec.output) {
      resolver.output(spec);
      continue;
    }
    if (!planned.tensors[i].present) {
      resolver.missing(spec);
      continue;
    }
    GivenTensor given{planned.tensors[i], ""};
    for (std::string axis : resolver.axesOf(spec)) {
      if (axis.starts_with("1|"))
        axis.erase(0, 2);
      const auto known = planned.extents.find(axis);
      given.type.shape.push_back(known != planned.extents.end() ? known->second : std::stoll(axis));
    }
    resolver.input(spec, given);
  }
  return resolver.finish();
}

Invocation typicalOf(const Invocation &call, const std::map<std::string, std::int64_t> &extents) {
  Assignments options;
  for (const auto &[name, value] : call.options.values)
    if (!value.empty())
      options.emplace_back(name, value);
  std::vector<std::string> with;
  std::string dtypes;
  for (const ArgumentSpec &spec : call.kernel->arguments) {
    if (spec.output)
      continue;
    if (spec.optional && call.has(spec.name))
      with.push_back(spec.name);
    dtypes += (dtypes.empty() ? "" : ",") + spec.name + "=";
    dtypes += name_of(call.dtype(spec.name));
  }
  return resolveTypical(*call.kernel, dtypes, extents, options, with);
}

// What the kernel says of every field.
static Config defaultsOf(const Invocation &call, const std::string &target) {
  Config config = call.kernel->defaults(call, target);
  for (const ConfigSpec &field : call.kernel->config)
    if (!config.contains(field.name))
      throw InputError(call.kernel->name + ": its defaults leave out the configuration field '" +
                       field.name + "'");
  return config;
}

Config ownChoice(const Invocation &call, const std::string &target) {
  const KernelSpec &kernel = *call.kernel;
  if (numerics() == Numerics::any)
    return defaultsOf(call, target);
  // Extents that follow from others are left to them.
  std::map<std::string, std::int64_t> extents;
  for (const auto &[axis, unused] : kernel.typical)
    if (std::find(kernel.batch.begin(), kernel.batch.end(), axis) == kernel.batch.end() &&
        call.extents.contains(axis))
      extents[axis] = call.extent(axis);
  return defaultsOf(typicalOf(call, extents), target);
}

Config completeConfig(const Invocation &call, const std::string &target, const Config &given) {
  Config config = ownChoice(call, target);
  for (const auto &[name, value] : given)
    config[name] = value;
  return config;
}

Config parseConfig(const KernelSpec &kernel, const Assignments &assignments) {
  Config config;
  for (const auto &[name, value] : assignments) {
    const auto field = findSpec(kernel.config, name);
    if (field == kernel.config.end())
      throw InputError(kernel.name + ": there is no configuration field '" + name +
                       "'; its fields are " + namesOf(kernel.config));
    char *end = nullptr;
    std::int64_t number = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || *end || number < field->least || number > field->most)
      throw InputError(kernel.name + ": configuration field '" + name +
                       "' is a whole number from " + std::to_string(field->least) + " to " +
                       std::to_string(field->most) + ", not '" + value + "'");
    config[name] = number;
  }
  return config;
}

} // namespace sectile
