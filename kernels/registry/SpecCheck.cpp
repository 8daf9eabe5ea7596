// Checking descriptions of kernels. Each refusal names the kernel, the field and what would do.
#include "kernels/registry/SpecCheck.h"
#include "kernels/calls/Use.h"
#include "runtime/Numerals.h"
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <sectile/error.h>
#include <set>

using namespace sectile;

namespace {

bool isName(std::string_view name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

constexpr const char *nameRule = "use letters, digits and _, and no digit first";

// "3"
bool isNumber(std::string_view axis) {
  std::int64_t extent = 0;
  const char *end = axis.data() + axis.size();
  return std::from_chars(axis.data(), end, extent).ptr == end && !axis.empty() && extent >= 0;
}

class SpecCheck {
public:
  explicit SpecCheck(const KernelSpec &kernel) : kernel(kernel) {}

  void all() {
    if (!isName(kernel.name))
      throw InputError("'" + kernel.name + "' cannot be a kernel's name: " + nameRule);
    require(bool(kernel.apply), "it has no `apply`, which launches it");
    options();
    arguments();
    config();
    spaces();
  }

  // Binds small calls, so that a field that nothing fits is found before the first launch.
  void launches() const {
    std::vector<std::string> optional;
    for (const ArgumentSpec &one : kernel.arguments)
      if (one.optional)
        optional.push_back(one.name);
    for (const DType dtype : kernel.arguments.front().dtypes)
      for (const auto &with : {std::vector<std::string>(), optional})
        bind(std::string(name_of(dtype)), with);
  }

private:
  void bind(const std::string &dtype, const std::vector<std::string> &with) const {
    Invocation call;
    try {
      call = resolveTypical(kernel, dtype, kernel.small, {}, with);
    } catch (const InputError &) {
      return; // not every combination is a call
    }
    try {
      bindKernel(call, ownChoice(call, "interpreter"));
    } catch (const Error &error) {
      throw InputError(error.what());
    }
  }

  void require(bool holds, const std::string &what) const {
    if (!holds)
      throw InputError(kernel.name + ": " + what);
  }

  // `kind` is the kind of thing that the name is of.
  void add(std::set<std::string> &names, const std::string &name, const std::string &kind) const {
    require(isName(name), "the " + kind + " name '" + name + "' is not possible: " + nameRule);
    require(names.insert(name).second, "the " + kind + " name '" + name + "' is used twice");
  }

  void options() const {
    std::set<std::string> names;
    for (const OptionSpec &option : kernel.options) {
      add(names, option.name, "option");
      require(option.kind == OptionSpec::choice || option.choices.empty(),
              "option '" + option.name + "' has choices, but its kind is another");
      require(option.kind != OptionSpec::choice || !option.choices.empty(),
              "option '" + option.name + "' has no choices");
      require(!option.initial_by || option.initial.empty(),
              "option '" + option.name + "' has both `initial` and `initial_by`");
      require(option.kind != OptionSpec::flag || option.initial == "true" ||
                  option.initial == "false" || option.initial_by,
              "option '" + option.name + "' is a flag: it is true or false initially");
      for (const std::string &bound : {option.least, option.most})
        require(bound.empty() ||
                    ((option.kind == OptionSpec::number || option.kind == OptionSpec::integer) &&
                     runtime::numberIn(bound)),
                "option '" + option.name + "' cannot be from or to '" + bound +
                    "': bounds are numbers, of a number or an integer");
      if (!option.initial.empty())
        checkOption(kernel, option.name, option.initial);
      for (const std::string &sample : option.samples)
        checkOption(kernel, option.name, sample);
    }
  }

  void arguments() const {
    std::set<std::string> names, inputAxes;
    std::map<std::string, std::string> spellings;
    bool hasOutput = false;
    for (const ArgumentSpec &one : kernel.arguments) {
      const std::string who = "argument '" + one.name + "'";
      require(one.output || !hasOutput, who + " is an input after an output");
      const int ways = !one.dtypes.empty() + !one.like.empty() + bool(one.dtype_by);
      require(ways == 1, who + " must set exactly one of dtypes, like and dtype_by");
      require(one.like.empty() || names.contains(one.like),
              who + " is like '" + one.like + "', which is no argument before it");
      require(!one.output || one.dtypes.size() < 2,
              who + " is an output with several dtypes: set `like` or `dtype_by`");
      require(one.output || one.also.empty(),
              who + " is an input: all of its dtypes are in `dtypes`");
      add(names, one.name, "argument");
      hasOutput |= one.output;
      require(!one.output || !one.optional, who + " is an output: it is left out by `with`");
      for (const std::string &input : one.over)
        require(one.output && isInput(input),
                who + " may be over '" + input +
                    "': only outputs have `over`, and it names inputs");
      require(!one.updates ||
                  (one.over.size() == 1 && one.like == one.over.front() &&
                   input(one.over.front()).axes == one.axes &&
                   one.with == (input(one.over.front()).optional ? one.over.front() : "")),
              who + " updates an input: `over` names that one, of its axes and dtype, and so does "
                    "`with` if it may be left out");
      require(one.with.empty() || (one.output && isSwitch(one.with)),
              who + " has `with` = '" + one.with +
                  "': only outputs have it, and it names an optional input or a flag");
      axes(one, who, inputAxes, spellings);
    }
    require(hasOutput, "it has no output");
    require(!kernel.arguments.front().output, "it has no input");
    for (const auto *extents : {&kernel.typical, &kernel.small})
      for (const auto &[axis, extent] : *extents)
        require(extent >= 0, "axis " + axis + " has a negative extent");
  }

  // There is one, as `over` has been checked.
  const ArgumentSpec &input(const std::string &name) const {
    return *std::ranges::find(kernel.arguments, name, &ArgumentSpec::name);
  }

  bool isInput(const std::string &name) const {
    return std::any_of(kernel.arguments.begin(), kernel.arguments.end(),
                       [&](const ArgumentSpec &one) { return !one.output && one.name == name; });
  }

  bool isSwitch(const std::string &name) const {
    return std::any_of(kernel.arguments.begin(), kernel.arguments.end(),
                       [&](const ArgumentSpec &one) {
                         return one.optional && !one.output && one.name == name;
                       }) ||
           std::any_of(kernel.options.begin(), kernel.options.end(), [&](const OptionSpec &one) {
             return one.kind == OptionSpec::flag && one.name == name;
           });
  }

  void axes(const ArgumentSpec &one, const std::string &who, std::set<std::string> &inputAxes,
            std::map<std::string, std::string> &spellings) const {
    require(std::count(one.axes.begin(), one.axes.end(), "...") <= 1,
            who + " has more than one axis '...'");
    for (std::string axis : one.axes) {
      const bool isBroadcast = axis.starts_with("1|");
      if (isBroadcast)
        axis.erase(0, 2);
      require(axis == "..." || isName(axis) || (!isBroadcast && isNumber(axis)),
              who + " has an axis '" + axis + "', which is no name, no number and not '...'");
      if (isNumber(axis))
        continue;
      // Shapes in words find an axis however it is written: `sq` is Sq.
      std::string letters = axis;
      std::ranges::transform(letters, letters.begin(),
                             [](unsigned char c) { return std::tolower(c); });
      const std::string &spelling = spellings.try_emplace(letters, axis).first->second;
      require(spelling == axis, "the axes '" + spelling + "' and '" + axis +
                                    "' differ in upper and lower case only, which shapes do not "
                                    "tell apart");
      if (!one.output) {
        inputAxes.insert(axis);
        require(kernel.typical.contains(axis) || kernel.follow,
                "axis " + axis + " of " + who + " has no typical extent");
      } else {
        require(inputAxes.contains(axis) || kernel.derive,
                "axis " + axis + " of " + who +
                    " is an axis of no input, and there is no `derive` to work it out");
        require(!isBroadcast || !one.with.empty(),
                who + " has an axis 1|" + axis + ", which only outputs with an input may have");
      }
    }
  }

  void config() const {
    std::set<std::string> names;
    for (const ConfigSpec &field : kernel.config) {
      add(names, field.name, "configuration field");
      require(field.least <= field.most, "field '" + field.name + "' can have no value");
    }
    require(kernel.config.empty() || kernel.defaults,
            "it has a configuration, but no `defaults` for it");
  }

  void spaces() const {
    for (const SearchSpace &space : kernel.spaces)
      for (const auto &[field, values] : space.axes) {
        const auto known =
            std::find_if(kernel.config.begin(), kernel.config.end(),
                         [&, name = field](const ConfigSpec &one) { return one.name == name; });
        require(known != kernel.config.end(), "its search space has an axis '" + field +
                                                  "', which is no field of the "
                                                  "configuration");
        require(!values.empty(), "its search space has no values for '" + field + "'");
        for (const std::int64_t value : values)
          require(known->least <= value && value <= known->most,
                  "its search space has " + field + "=" + std::to_string(value) +
                      ", which the field may not be");
      }
  }

  const KernelSpec &kernel;
};

} // namespace

void sectile::completeSpec(KernelSpec &kernel) {
  SpecCheck(kernel).all();
  if (!kernel.defaults)
    kernel.defaults = [](const Invocation &, const std::string &) { return ConfigValues(); };
  SpecCheck(kernel).launches();
}
