// Kernels of bundles by their names, without the host code that launches them elsewhere: what the
// arguments and the configuration of a launch mean is worked out from the bundle.
#include "capi/Handles.h"
#include "capi/Operation.h"
#include "capi/Tensors.h"
#include "runtime/Bundle.h"
#include "runtime/DeclaredArguments.h"
#include "runtime/LaunchAccess.h"
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

using namespace sectile;
using detail::ArgKind;
using detail::ArgSpec;

namespace {

// A kernel of one signature. All bundles that have it share the code that was loaded for it.
struct BareKernel {
  BareKernel(std::string_view name, std::vector<ArgSpec> signature)
      : name(name), signature(std::move(signature)),
        kernel({this->name, this->signature, nullptr, nullptr}, {}) {}

  const std::string name;
  const std::vector<ArgSpec> signature;
  const detail::KernelBase kernel;
};

// A configuration that a bundle has code for.
struct Configuration {
  std::string target;
  unsigned warps, stages;
  std::vector<std::uint64_t> words;
  std::string described; // "m=128 n=64"

  friend bool operator==(const Configuration &, const Configuration &) = default;
};

// "m=128 n=64 warps=4 stages=3".
std::string textOf(const Configuration &configuration) {
  std::string text = configuration.described;
  for (const auto &[name, value] :
       {std::pair("warps=", configuration.warps), std::pair("stages=", configuration.stages)})
    if ((" " + text).find(std::string(" ") + name) == text.npos)
      text += (text.empty() ? "" : " ") + std::string(name) + std::to_string(value);
  return text;
}

} // namespace

struct sectile_kernel {
  struct Signature {
    const BareKernel *bare;
    std::vector<Configuration> configurations;
  };
  std::string name;
  std::vector<Signature> signatures;
};

namespace {

const BareKernel &bareKernel(std::string_view name, const std::vector<ArgSpec> &signature) {
  static std::mutex mutex; // guards what follows; kernels may be launched until the process ends
  static auto *all = new std::deque<BareKernel>;
  std::lock_guard lock(mutex);
  for (const BareKernel &known : *all)
    if (known.name == name && known.signature == signature)
      return known;
  return all->emplace_back(name, signature);
}

// What the bundles of the process have of this name.
std::unique_ptr<const sectile_kernel> collect(const std::string &name) {
  auto kernel = std::make_unique<sectile_kernel>();
  kernel->name = name;
  for (const auto &source : *runtime::codeSources()) {
    const runtime::Bundle *const bundle = source->asBundle();
    if (!bundle)
      continue;
    for (const auto &content : bundle->contents(/*withCode=*/false)) {
      const runtime::BundleKey &key = content.key;
      if (key.kernel != name)
        continue;
      const BareKernel &bare = bareKernel(name, key.signature);
      auto at = std::ranges::find(kernel->signatures, &bare, &sectile_kernel::Signature::bare);
      if (at == kernel->signatures.end())
        at = kernel->signatures.insert(at, {&bare, {}});
      Configuration configuration{key.target, key.warps, key.stages, key.configuration,
                                  key.described};
      if (std::ranges::find(at->configurations, configuration) == at->configurations.end())
        at->configurations.push_back(std::move(configuration));
    }
  }
  return kernel;
}

// Handles stay as they are: after another bundle was loaded, a name has another one.
const sectile_kernel *findBare(const std::string &name) {
  static std::mutex mutex; // guards what follows
  static auto *handles =
      new std::map<std::pair<std::string, std::size_t>, std::unique_ptr<const sectile_kernel>>;
  const std::size_t sources = runtime::codeSources()->size();
  std::lock_guard lock(mutex);
  auto at = handles->find({name, sources});
  if (at == handles->end()) {
    std::unique_ptr<const sectile_kernel> kernel = collect(name);
    if (kernel->signatures.empty())
      return nullptr;
    at = handles->emplace(std::pair(name, sources), std::move(kernel)).first;
  }
  return at->second.get();
}

std::string namesOfAll() {
  constexpr std::size_t most = 20;
  std::vector<std::string> names;
  for (const auto &source : *runtime::codeSources())
    if (const runtime::Bundle *const bundle = source->asBundle())
      for (const auto &content : bundle->contents(/*withCode=*/false))
        if (std::ranges::find(names, content.key.kernel) == names.end())
          names.push_back(content.key.kernel);
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (text.empty() ? "" : ", ") + names[i];
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " others";
  return text;
}

// The arguments of a launch as words, as far as they are.
struct Words {
  std::uint64_t words[detail::maxArguments + 1];
  std::size_t count = 0;

  void add(std::uint64_t word) { words[count++] = word; }
};

template <class T> std::uint64_t floatingWord(double value) {
  return detail::asWord(static_cast<T>(value));
}

std::uint64_t floatingWord(DType dtype, double value) {
  switch (dtype) {
  case DType::float64:
    return floatingWord<double>(value);
  case DType::float32:
    return floatingWord<float>(value);
  case DType::float16:
    return floatingWord<half>(value);
  case DType::bfloat16:
    return floatingWord<bfloat16>(value);
  case DType::float8_e4m3:
    return floatingWord<float8_e4m3>(value);
  case DType::float8_e5m2:
    return floatingWord<float8_e5m2>(value);
  case DType::float8_e4m3fnuz:
    return floatingWord<float8_e4m3fnuz>(value);
  case DType::float8_e5m2fnuz:
    return floatingWord<float8_e5m2fnuz>(value);
  default:
    return floatingWord<float8_e4m3b11fnuz>(value);
  }
}

// Whether an integer lies in an integer type, and its word.
bool putInteger(DType dtype, const sectile_value &given, std::uint64_t &word) {
  const bool isNegative = given.kind == SECTILE_INT64 && given.value.i < 0;
  word = given.value.u;
  const unsigned bits = static_cast<unsigned>(8 * size_of(dtype));
  if (dtype == DType::boolean)
    return word <= 1;
  if (dtype >= DType::uint8)
    return !isNegative && (bits == 64 || word >> bits == 0);
  if (!isNegative)
    return word >> (bits - 1) == 0;
  if (bits == 64)
    return true;
  word &= (std::uint64_t{1} << bits) - 1; // what lies above the number is zero
  return given.value.i >= -(std::int64_t{1} << (bits - 1));
}

std::string putNumber(const ArgSpec &spec, const sectile_value &given, Words &words) {
  const bool isInteger = given.kind == SECTILE_INT64 || given.kind == SECTILE_UINT64;
  if (spec.kind == ArgKind::scalar && is_floating(spec.dtype)) {
    if (given.kind != SECTILE_DOUBLE && !isInteger)
      return "is no number";
    words.add(floatingWord(spec.dtype, given.kind == SECTILE_DOUBLE ? given.value.d
                                       : given.kind == SECTILE_INT64
                                           ? static_cast<double>(given.value.i)
                                           : static_cast<double>(given.value.u)));
    return "";
  }
  if (!isInteger)
    return "is no integer";
  std::uint64_t word = 0;
  if (!putInteger(spec.kind == ArgKind::index ? DType::int64 : spec.dtype, given, word))
    return "does not fit into " + runtime::declared(spec);
  words.add(word);
  return "";
}

// Throws Refusal for tensors that no kernel takes.
std::string putTensor(const Device &device, const ArgSpec &spec, const DLTensor &tensor,
                      const std::string &who, Words &words) {
  const AnyTensor borrowed = c::borrow(device, tensor, who);
  if (borrowed.dtype != spec.dtype)
    return "has elements of " + std::string(name_of(borrowed.dtype));
  if (spec.kind == ArgKind::pointer) {
    std::int64_t dense = 1;
    for (std::size_t axis = borrowed.extents.size(); axis-- > 0; dense *= borrowed.extents[axis])
      if (borrowed.extents[axis] != 1 && borrowed.strides[axis] != dense)
        return "is not dense in row-major order, as a Ptr is";
    words.add(borrowed.address);
    return "";
  }
  if (borrowed.extents.size() != spec.rank)
    return "has rank " + std::to_string(borrowed.extents.size());
  words.add(borrowed.address);
  for (const auto *lengths : {&borrowed.extents, &borrowed.strides})
    for (const std::int64_t length : *lengths)
      words.add(static_cast<std::uint64_t>(length));
  return "";
}

// Adds an argument's words. Says what is wrong with it, if anything is.
std::string put(const Device &device, const ArgSpec &spec, const sectile_value &given,
                const std::string &who, Words &words) {
  const bool isTensor = given.kind == SECTILE_TENSOR, isAddress = given.kind == SECTILE_ADDRESS;
  if (spec.kind == ArgKind::scalar || spec.kind == ArgKind::index)
    return isTensor || isAddress ? "is no number" : putNumber(spec, given, words);
  if (spec.kind == ArgKind::pointer && isAddress) {
    words.add(reinterpret_cast<std::uintptr_t>(given.value.address));
    return "";
  }
  if (!isTensor)
    return "is no tensor";
  c::require(given.value.tensor, (who + ": its tensor").c_str());
  return putTensor(device, spec, *given.value.tensor, who, words);
}

struct Call {
  const sectile_kernel &kernel;
  const Device &device;
  std::span<const sectile_value> arguments;
  std::span<const sectile_option> config;
};

// Says why the arguments are not those of the signature, or puts them into `words`.
std::string fit(const Call &call, const BareKernel &bare, Words &words) {
  if (bare.signature.size() != call.arguments.size())
    return std::to_string(call.arguments.size()) + " arguments were given";
  words.count = 0;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const std::string who = "argument " + std::to_string(i);
    if (const std::string why = put(call.device, bare.signature[i], call.arguments[i],
                                    "kernel '" + call.kernel.name + "': " + who, words);
        !why.empty())
      return who + " " + why;
  }
  return "";
}

// The signature that the arguments are of. Throws Refusal.
const sectile_kernel::Signature &signatureFor(const Call &call, Words &words) {
  const sectile_kernel::Signature *found = nullptr;
  std::string others;
  Words candidate;
  for (const sectile_kernel::Signature &signature : call.kernel.signatures) {
    const std::string why = fit(call, *signature.bare, candidate);
    if (!why.empty()) {
      others += (others.empty() ? "" : "; ") + runtime::declared(signature.bare->signature) +
                ", but " + why;
      continue;
    }
    if (found)
      throw c::Refusal(SECTILE_INVALID,
                       "kernel '" + call.kernel.name + "' takes these arguments as " +
                           runtime::declared(found->bare->signature) + " and as " +
                           runtime::declared(signature.bare->signature) +
                           ": give tensors in place of addresses, so that their types decide");
    found = &signature;
    words = candidate;
  }
  if (!found)
    throw c::Refusal(SECTILE_INVALID, "kernel '" + call.kernel.name +
                                          "' does not take these arguments: it takes " + others);
  return *found;
}

// Of a field, as text; none where the configuration has no such field.
std::optional<std::string> valueOf(const Configuration &configuration, std::string_view field) {
  if (field == "warps")
    return std::to_string(configuration.warps);
  if (field == "stages")
    return std::to_string(configuration.stages);
  const std::string text = " " + configuration.described + " ",
                    name = " " + std::string(field) + "=";
  const std::size_t at = text.find(name);
  if (at == text.npos)
    return std::nullopt;
  const std::size_t from = at + name.size();
  return text.substr(from, text.find(' ', from) - from);
}

bool isEqual(const std::string &value, const sectile_option &wanted, const std::string &who) {
  if (wanted.kind == SECTILE_DOUBLE) // 0.5 is "0.500000" in a description
    return value == std::to_string(wanted.value.d);
  return value == c::textOf(wanted, who);
}

// The one that the launch names. Throws Refusal where there is none, or several.
const Configuration &configurationFor(const Call &call,
                                      const sectile_kernel::Signature &signature) {
  const std::string target = runtime::bundleTargetOf(*call.device.impl());
  std::vector<const Configuration *> left;
  int best = 0;
  for (const Configuration &configuration : signature.configurations) {
    const int suits = runtime::suitability(configuration.target, target);
    if (suits > best)
      left.clear();
    best = std::max(best, suits);
    if (suits == best)
      left.push_back(&configuration);
  }
  const std::string whose = "kernel '" + call.kernel.name + "'";
  std::string known;
  for (const Configuration *one : left)
    known += (known.empty() ? "" : "; ") + textOf(*one);
  if (!best)
    throw c::Refusal(
        SECTILE_NO_CODE, whose + ": no bundle has code of it for " + target + ", but: " +
                             [&] {
                               std::string targets;
                               for (const Configuration *one : left)
                                 if (targets.find(one->target) == targets.npos)
                                   targets += (targets.empty() ? "" : ", ") + one->target;
                               return targets;
                             }() +
                             ": build the bundle for " + target + ", too");
  for (std::size_t i = 0; i < call.config.size(); ++i) {
    const sectile_option &field = call.config[i];
    c::require(field.name, (whose + ": the name of field " + std::to_string(i)).c_str());
    const std::string who = whose + ": field '" + field.name + "'";
    if (std::ranges::none_of(
            left,
            [&](const Configuration *one) { return valueOf(*one, field.name).has_value(); }) &&
        !left.empty())
      throw c::Refusal(SECTILE_INVALID, who + ": its configurations have no such field: " + known);
    std::erase_if(left, [&](const Configuration *one) {
      const std::optional<std::string> value = valueOf(*one, field.name);
      return !value || !isEqual(*value, field, who);
    });
  }
  if (left.empty())
    throw c::Refusal(SECTILE_NO_CODE, whose + ": no bundle has code of it for " + target +
                                          " with this configuration, but with: " + known +
                                          ": add it to the bundle");
  if (left.size() > 1)
    throw c::Refusal(SECTILE_INVALID, whose + " has several configurations for " + target + ": " +
                                          known + ": give fields until one is left");
  return *left.front();
}

void launch(const Call &call, const Stream &stream, const Grid &grid) {
  Words words;
  const sectile_kernel::Signature &signature = signatureFor(call, words);
  const Configuration &configuration = configurationFor(call, signature);
  const std::vector<detail::Owner> owners(signature.bare->signature.size());
  const detail::PackedLaunch packed{
      words.words,
      owners.data(),
      &configuration,
      configuration.words.data(),
      configuration.words.size(),
      [](const void *given) { return static_cast<const Configuration *>(given)->described; },
      {.warps = configuration.warps, .stages = configuration.stages}};
  runtime::LaunchAccess::launch(signature.bare->kernel, stream, grid, packed);
}

} // namespace

extern "C" {

sectile_status sectile_kernel_find(const char *name, const sectile_kernel **kernel) {
  if (kernel)
    *kernel = nullptr;
  return c::guard([&] {
    c::require(name, "sectile_kernel_find: name");
    c::require(kernel, "sectile_kernel_find: kernel");
    *kernel = findBare(name);
    if (*kernel)
      return;
    const std::string known = namesOfAll();
    throw c::Refusal(
        SECTILE_NOT_FOUND,
        "no bundle of this process has a kernel '" + std::string(name) + "'" +
            (known.empty() ? ": load one that has it (sectile_bundle_load)" : ", but: " + known));
  });
}

sectile_status sectile_kernel_launch(const sectile_kernel *kernel, sectile_stream *stream,
                                     const uint32_t grid[3], const sectile_value *arguments,
                                     size_t count, const sectile_option *config,
                                     size_t config_count) {
  return c::guard(
      [&] {
        c::require(kernel, "sectile_kernel_launch: kernel");
        c::require(stream, "sectile_kernel_launch: stream");
        c::require(grid, "sectile_kernel_launch: grid");
        if (count)
          c::require(arguments, "sectile_kernel_launch: arguments");
        if (config_count)
          c::require(config, "sectile_kernel_launch: config");
        const Device device(stream->stream.impl()->device);
        launch({*kernel, device, {arguments, count}, {config, config_count}}, stream->stream,
               {grid[0], grid[1], grid[2]});
      },
      c::implOf(stream));
}

} // extern "C"
