// From what C gave to a settled call: checks, the configuration, and what is kept of both.
#include "capi/Operation.h"
#include "capi/Tensors.h"
#include "kernels/bundles/CallRecorder.h"
#include "kernels/calls/Overlap.h"
#include "kernels/tuning/Choices.h"
#include <charconv>
#include <cstring>
#include <sectile/tuning.h>
#include <unordered_map>

using namespace sectile;

namespace {

using Key = std::vector<std::uint64_t>;

struct HashOfKey {
  std::size_t operator()(const Key &key) const {
    std::uint64_t hash = key.size();
    for (const std::uint64_t word : key)
      hash = (std::rotl(hash, 23) ^ word) * 0x9e37'79b9'7f4a'7c15;
    return static_cast<std::size_t>(hash ^ hash >> 32);
  }
};

void addText(Key &key, const char *text) {
  const std::size_t length = std::strlen(text);
  key.push_back(length);
  for (std::size_t i = 0; i < length; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text + i, std::min<std::size_t>(8, length - i));
    key.push_back(word);
  }
}

std::uint64_t addressOf(const DLTensor &tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
}

// All that settle() looks at. What could not be read is left to settle() to refuse.
void writeKey(Key &key, const Device &device, const c::GivenCall &given) {
  key.clear();
  key.push_back(reinterpret_cast<std::uintptr_t>(given.op));
  key.push_back(reinterpret_cast<std::uintptr_t>(device.impl().get()));
  key.push_back(static_cast<std::uint64_t>(autotune_mode()) << 8 |
                static_cast<std::uint64_t>(numerics()));
  for (std::size_t i = 0; i < given.count; ++i) {
    const DLTensor *const tensor = given.arguments[i];
    if (!tensor) {
      key.push_back(0);
      continue;
    }
    const bool isReadable = tensor->ndim >= 0 && (tensor->shape || tensor->ndim == 0);
    key.push_back(1 | (tensor->strides ? 2 : 0) | (tensor->data ? 4 : 0) | (isReadable ? 8 : 0) |
                  std::uint64_t{tensor->dtype.code} << 8 | std::uint64_t{tensor->dtype.bits} << 16 |
                  std::uint64_t{tensor->dtype.lanes} << 24 |
                  (addressOf(*tensor) & c::Replay::seenBits) << 40);
    key.push_back(static_cast<std::uint64_t>(tensor->device.device_type) << 32 |
                  static_cast<std::uint32_t>(tensor->device.device_id));
    key.push_back(static_cast<std::uint32_t>(tensor->ndim));
    for (int axis = 0; isReadable && axis < tensor->ndim; ++axis) {
      key.push_back(static_cast<std::uint64_t>(tensor->shape[axis]));
      if (tensor->strides)
        key.push_back(static_cast<std::uint64_t>(tensor->strides[axis]));
    }
  }
  for (std::size_t i = 0; i < given.optionCount; ++i) {
    const sectile_option &option = given.options[i];
    key.push_back(static_cast<std::uint64_t>(option.kind));
    if (option.name)
      addText(key, option.name);
    if (option.kind != SECTILE_TEXT)
      key.push_back(option.value.u);
    else if (option.value.text)
      addText(key, option.value.text);
  }
}

c::Settled::Span spanOf(const TensorType &type) {
  c::Settled::Span span;
  if (!type.present || elementCount(type.shape) == 0)
    return span;
  const Shape strides = stridesOf(type);
  for (std::size_t i = 0; i < strides.size(); ++i)
    (strides[i] < 0 ? span.low : span.high) += (type.shape[i] - 1) * strides[i];
  const auto size = static_cast<std::int64_t>(size_of(type.dtype));
  span.low *= size;
  span.high = (span.high + 1) * size;
  return span;
}

c::Settled settleNow(const Device &device, const c::GivenCall &given) {
  const KernelSpec &kernel = given.op->kernel;
  NamedTensors inputs, outputs;
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i < given.count; ++i) {
    const ArgumentSpec &spec = kernel.arguments[i];
    const DLTensor *const tensor = given.arguments[i];
    addresses.push_back(tensor ? addressOf(*tensor) : 0);
    if (tensor)
      (spec.output ? outputs : inputs)[spec.name] =
          c::borrow(device, *tensor, kernel.name + ": " + spec.name);
  }
  c::Settled settled;
  settled.call = callOn(kernel, inputs, c::optionsOf(given), outputs);
  const Invocation &call = settled.call;
  for (std::size_t i = 0; i < given.count; ++i) {
    settled.spans.push_back(spanOf(call.tensors[i]));
    if (!kernel.arguments[i].output || !call.tensors[i].present)
      continue;
    settled.outputs.push_back(i);
    if (!given.arguments[i])
      throw c::Refusal(SECTILE_INVALID, kernel.name + ": the output '" + kernel.arguments[i].name +
                                            "' is missing: give a tensor of " +
                                            std::string(name_of(call.tensors[i].dtype)) + " " +
                                            toString(call.tensors[i].shape) +
                                            " (sectile_op_infer says what a call writes)");
    // Strides are part of what is settled; where tensors lie is compared for each call.
    const Shape strides = stridesOf(call.tensors[i]);
    if (overlapsItself(call.tensors[i].shape, strides))
      throw InputError(kernel.name + ": " + itselfText(kernel.arguments[i].name, strides));
  }
  recordCall(call);
  settled.config = configFor(call, device);
  if (given.count <= c::mostArguments)
    settled.replay = c::Replay::of(call, settled.config, device, addresses);
  return settled;
}

struct Entry {
  std::uint64_t generation; // of the database of measurements
  std::shared_ptr<const c::Settled> settled;
};
using Table = std::unordered_map<Key, Entry, HashOfKey>;
constexpr std::size_t mostSettled = 1024;

} // namespace

std::string c::textOf(const sectile_option &option, const std::string &who) {
  char text[32];
  switch (static_cast<int>(option.kind)) {
  case SECTILE_INT64:
    return std::to_string(option.value.i);
  case SECTILE_UINT64:
    return std::to_string(option.value.u);
  case SECTILE_DOUBLE:
    return {text, std::to_chars(text, text + sizeof text, option.value.d).ptr};
  case SECTILE_TEXT:
    require(option.value.text, (who + ": its text").c_str());
    return option.value.text;
  default:
    throw Refusal(SECTILE_INVALID, who + ": no value of kind " +
                                       std::to_string(static_cast<int>(option.kind)) +
                                       " can be one");
  }
}

void c::checkGiven(const GivenCall &given, const char *function) {
  // Each call comes here: texts are made where something is missing.
  const auto need = [&](const void *pointer, const char *what) {
    if (!pointer)
      require(nullptr, (std::string(function) + ": " + what).c_str());
  };
  need(given.op, "op");
  const KernelSpec &kernel = given.op->kernel;
  if (given.count != kernel.arguments.size()) {
    std::string names;
    for (const ArgumentSpec &spec : kernel.arguments)
      names += (names.empty() ? "" : ", ") + spec.name;
    throw Refusal(SECTILE_INVALID, kernel.name + ": " + std::to_string(given.count) +
                                       " arguments were given, but it has " +
                                       std::to_string(kernel.arguments.size()) + ": " + names +
                                       " (NULL for one that is left out)");
  }
  need(given.arguments, "arguments");
  if (given.optionCount)
    need(given.options, "options");
}

KernelOptions c::optionsOf(const GivenCall &given) {
  KernelOptions options;
  const std::string &kernel = given.op->kernel.name;
  for (std::size_t i = 0; i < given.optionCount; ++i) {
    const sectile_option &option = given.options[i];
    require(option.name, (kernel + ": the name of option " + std::to_string(i)).c_str());
    const std::string who = kernel + ": option '" + option.name + "'";
    if (!options.emplace(option.name, textOf(option, who)).second)
      throw Refusal(SECTILE_INVALID, who + " is given twice");
  }
  return options;
}

std::shared_ptr<const c::Settled> c::settle(const Device &device, const GivenCall &given) {
  // One table for each thread, so that calls do not wait for each other.
  thread_local Table table;
  thread_local Key key;
  writeKey(key, device, given);
  const std::uint64_t generation = choicesRecorded();
  const auto found = table.find(key);
  if (found != table.end() && found->second.generation == generation)
    return found->second.settled;
  const Key own = key; // settling may run code that settles other calls
  auto settled = std::make_shared<const Settled>(settleNow(device, given));
  if (table.size() >= mostSettled)
    table.clear();
  table.insert_or_assign(own, Entry{generation, settled});
  return settled;
}

Placement c::placementOf(const Device &device, const GivenCall &given) {
  Placement placed;
  const KernelSpec &kernel = given.op->kernel;
  for (std::size_t i = 0; i < given.count; ++i) {
    AnyTensor tensor;
    if (given.arguments[i])
      tensor = borrow(device, *given.arguments[i], kernel.name + ": " + kernel.arguments[i].name);
    placed.memory.push_back(tensor.memory);
    placed.addresses.push_back(tensor.address);
  }
  return placed;
}

bool c::isApart(const Settled &settled, const DLTensor *const *arguments) {
  const auto begin = [&](std::size_t i) {
    return addressOf(*arguments[i]) + static_cast<std::uint64_t>(settled.spans[i].low);
  };
  const auto end = [&](std::size_t i) {
    return addressOf(*arguments[i]) + static_cast<std::uint64_t>(settled.spans[i].high);
  };
  for (const std::size_t output : settled.outputs)
    for (std::size_t i = 0; i < settled.spans.size(); ++i)
      if (i != output && arguments[i] && begin(i) < end(output) && begin(output) < end(i))
        return false;
  return true;
}
