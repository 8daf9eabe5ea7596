// flash::attend and flash::backward: calls of `attention`, `attention_backward` and their like in
// all but the loops' code.
#include "kernels/attention/Options.h"
#include "kernels/attention/Tiles.h"
#include "kernels/calls/Overlap.h"
#include "kernels/serving/Paged.h"
#include "kernels/tuning/Choices.h"
#include <array>
#include <bit>

using namespace sectile;

namespace {

// What the keys of a call are.
enum class Kind { dense, packed, decode, prefill };

Kind kindOf(const NamedTensors &inputs) {
  const bool packed = inputs.contains("cu_seqlens_q");
  if (inputs.contains("k_cache"))
    return packed ? Kind::prefill : Kind::decode;
  return packed ? Kind::packed : Kind::dense;
}

// The kernel of the library that a call is in all but the loops' code, forward and backward.
constexpr std::array<std::array<const char *, 2>, 4> kernels{
    {{"attention", "attention_backward"},
     {"attention_varlen", "attention_varlen_backward"},
     {"paged_decode", nullptr},
     {"paged_prefill", nullptr}}};
const char *kernelOf(bool backward, Kind kind) {
  return kernels[static_cast<std::size_t>(kind)][backward];
}

// The same under the name that messages to callers have.
const KernelSpec &specOf(bool backward, Kind kind) {
  static const auto specs = [] {
    std::array<std::array<KernelSpec, 2>, kernels.size()> all;
    for (std::size_t of = 0; of < kernels.size(); ++of)
      for (const bool back : {false, true})
        if (const char *name = kernels[of][back]) {
          all[of][back] = findKernel(name);
          all[of][back].name = back ? "flash::backward" : "flash::attend";
        }
    return all;
  }();
  return specs[static_cast<std::size_t>(kind)][backward];
}

// In the words of the kernel's options, of which not all kernels have all.
KernelOptions wordsOf(const flash::detail::Call &call, Kind kind) {
  const flash::Options &options = call.options;
  KernelOptions words;
  if (options.scale)
    words["scale"] = sectile::detail::wordOf(*options.scale);
  if (kind != Kind::decode)
    words["causal"] = call.causal ? "true" : "false";
  if (kind == Kind::decode || kind == Kind::prefill) {
    if (options.dropout != 0)
      throw InputError("flash::attend: there is no dropout over keys in pages");
    if (options.tf32)
      throw InputError("flash::attend: products with keys in pages are exact, not of tf32");
    return words;
  }
  words["dropout"] = sectile::detail::wordOf(options.dropout);
  words["seed"] = std::to_string(options.seed);
  words["precision"] = options.tf32 ? "tf32" : "exact";
  return words;
}

// A gradient has the operand's extents. How long packed sequences are is not known.
void checkLearned(const Invocation &call, Kind kind, flash::Along along,
                  const Tensor<float, 4> &gradient) {
  const bool packed = kind != Kind::dense;
  const std::int64_t batches = kind == Kind::dense    ? call.extent("B")
                               : kind == Kind::packed ? call.extent("B1") - 1
                                                      : call.extent("S"),
                     heads = call.extent("Hq"), width = gradient.extent(3);
  const auto fits = [&] {
    switch (along) {
    case flash::Along::pairs:
      return packed || (gradient.extent(2) == call.extent("Sq") && width == call.extent("Sk"));
    case flash::Along::heads:
      return width == 1;
    case flash::Along::queries:
      return packed || width == call.extent("Sq");
    case flash::Along::keys:
      return packed || width == call.extent("Sk");
    case flash::Along::distances:
      return width % 2 == 1 && width >= 3;
    }
    return false;
  };
  if ((gradient.extent(0) == 1 || gradient.extent(0) == batches) &&
      (gradient.extent(1) == 1 || gradient.extent(1) == heads) && fits())
    return;
  Shape shape(gradient.extents().begin(), gradient.extents().end());
  if (along != flash::Along::pairs)
    shape.erase(shape.begin() + 2);
  refuse(call, "a learned operand is ", toString(shape),
         ", but has to be [1 or B, 1 or H, W] for B=", batches, ", H=", heads,
         ", and W 1, Sq, Sk or an odd number of distances, 3 at least, or [1 or B, 1 or "
         "H, Sq, Sk] along pairs");
}

// The launches of a call read operands again after some of the gradients are written.
void checkOverlap(const flash::detail::Call &call) {
  const auto layoutOf = [](const AnyTensor &tensor) {
    return StridedArray{tensor.address, size_of(tensor.dtype), tensor.extents, tensor.strides};
  };
  for (const flash::detail::LearnedGradient &one : call.learned) {
    const std::string_view name = "the gradient of a learned operand";
    const AnyTensor gradient = one.gradient;
    if (overlapsItself(gradient.extents, gradient.strides))
      throw InputError("flash::backward: " + itselfText(name, gradient.strides));
    const auto keepApart = [&](const AnyTensor &other, std::string_view otherName) {
      if (overlap(layoutOf(gradient), layoutOf(other)))
        throw InputError("flash::backward: " + std::string(name) + " overlaps " +
                         std::string(otherName) + " in memory; it needs memory of its own");
    };
    for (const NamedTensors *tensors : {&call.inputs, &call.outputs})
      for (const auto &[other, tensor] : *tensors)
        keepApart(tensor, other);
    for (const flash::detail::LearnedGradient &other : call.learned) {
      keepApart(other.values, "the values of one");
      if (&other != &one)
        keepApart(other.gradient, "that of another");
    }
  }
}

// For programs that go over lists: one block of one head each, or over pages of the heads that
// share keys, in tiles that are parts of blocks of 128, or of those that are powers of 2.
void fitLists(Config &config, Kind kind) {
  if (kind == Kind::dense || kind == Kind::packed)
    for (const auto &[name, value] : Config{{"persistent", 0}, {"packed", 0}, {"splits", 1}})
      if (config.contains(name))
        config[name] = value;
  for (const char *tile : {"m", "n", "q_m", "q_n", "kv_m", "kv_n"})
    if (const auto found = config.find(tile); found != config.end())
      found->second = static_cast<std::int64_t>(
          std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(found->second, 1))));
}

NamedTensors run(const Stream &stream, bool backward, flash::detail::Call call,
                 const flash::detail::Launcher &launch) {
  try {
    const Kind kind = kindOf(call.inputs);
    const KernelSpec &spec = specOf(backward, kind);
    const flash::Options &options = call.options;
    const KernelOptions words = wordsOf(call, kind);
    if (options.sinks)
      call.inputs["sinks"] = *options.sinks;
    if (options.seed_offset && (kind == Kind::dense || kind == Kind::packed))
      call.inputs["seed_offset"] = *options.seed_offset;
    Invocation invocation = callOn(spec, call.inputs, words, call.outputs);
    if (call.modified)
      tiles::markLambda(invocation);
    Assignments fields;
    for (const auto &[name, value] : options.config)
      fields.emplace_back(name, std::to_string(value));
    const Config own = parseConfig(spec, fields);
    // What was measured is kept under the kernel's own name.
    Invocation known = invocation;
    known.kernel = &findKernel(kernelOf(backward, kind));
    Config config = configFor(known, stream.device());
    if (call.listed)
      fitLists(config, kind);
    for (const auto &[name, value] : own)
      config[name] = value;
    for (const auto &[along, slot, values, gradient] : call.learned)
      checkLearned(invocation, kind, along, gradient);
    if (backward)
      checkOverlap(call);
    const AttentionNumbers numbers(invocation);
    return runCall(stream, invocation, config, call.inputs, call.outputs, [&](Use &use) {
      if (kind == Kind::decode || kind == Kind::prefill)
        return launchPaged(use, numbers, call.modified, launch);
      if (kind == Kind::packed)
        return backward ? launchVarlenGradients(use, numbers, call.modified, call.learned, launch)
                        : launchVarlen(use, numbers, call.modified, launch);
      if (backward)
        launchGradients(use, numbers, call.modified, call.learned, GradientTensors(use), launch);
      else
        launchForward(use, numbers, call.modified, AttentionTensors(use), launch);
    });
  } catch (const InputError &error) {
    throw LaunchError(error.what());
  }
}

} // namespace

void flash::detail::checkExtents(const char *function, const std::uint64_t *words,
                                 std::initializer_list<WantedExtent> wanted) {
  const std::uint64_t *extents = words + 1; // after the address
  bool fits = true;
  std::string of, extentsText;
  for (std::size_t axis = 0; const auto &[name, extent, orOne] : wanted) {
    const auto given = static_cast<std::int64_t>(extents[axis++]);
    fits &= !extent || given == *extent || (orOne && given == 1);
    const char *comma = of.empty() ? "" : ", ";
    extentsText += comma + std::to_string(given);
    of += std::string(comma) + (orOne ? "1 or " : "") +
          (extent ? std::to_string(*extent) : std::string(name));
  }
  if (!fits)
    throw LaunchError(std::string("flash::") + function + ": an operand is [" + extentsText +
                      "], but has to be [" + of + "]");
}

using Extents = flash::detail::CallExtents;
void flash::detail::checkOperands(std::type_identity<flash::Documents>, const std::uint64_t *words,
                                  const Extents &call) {
  for (const std::uint64_t *of : {words, words + sectile::detail::wordsOf<flash::Documents> / 2})
    checkExtents("documents", of, {{"B", call.batches}, {"Sk", call.keys}});
}
void flash::detail::checkOperands(std::type_identity<flash::Prefix>, const std::uint64_t *words,
                                  const Extents &call) {
  checkExtents("prefix", words, {{"B", call.batches}});
}
void flash::detail::checkOperands(std::type_identity<flash::KeyLengths>, const std::uint64_t *words,
                                  const Extents &call) {
  checkExtents("key_lengths", words, {{"B", call.batches}});
}
void flash::detail::checkOperands(std::type_identity<flash::KeyMask>, const std::uint64_t *words,
                                  const Extents &call) {
  checkExtents("key_mask", words, {{"B", call.batches, true}, {"Sk", call.keys}});
}
void flash::detail::checkOperands(std::type_identity<flash::Mask>, const std::uint64_t *words,
                                  const Extents &call) {
  checkExtents("mask", words,
               {{"B", call.batches, true},
                {"H", call.heads, true},
                {"Sq", call.queries},
                {"Sk", call.keys}});
}
void flash::detail::checkOperands(std::type_identity<flash::MaskBlocks>, const std::uint64_t *words,
                                  const Extents &call) {
  // The extents of a block are after the mask's.
  const auto blocks = [&](const std::optional<std::int64_t> &extent, std::size_t axis) {
    const std::uint64_t size = words[sectile::detail::wordsOf<flash::Mask> + axis];
    return extent ? std::optional(ceilDiv(*extent, static_cast<std::int64_t>(size))) : extent;
  };
  checkExtents("block_list", words,
               {{"B", call.batches, true},
                {"H", call.heads, true},
                {"blocks of queries", blocks(call.queries, 0)},
                {"blocks of keys", blocks(call.keys, 1)}});
}
void flash::detail::checkOperands(std::type_identity<flash::Tree>, const std::uint64_t *words,
                                  const Extents &call) {
  checkExtents("tree", words, {{"B", call.batches}, {"Sq", call.queries}});
  if (words[2] > 64)
    throw LaunchError("flash::tree: there are " + std::to_string(words[2]) +
                      " queries, but there may be 64");
}
void flash::detail::checkOperands(std::type_identity<flash::TokenTree>, const std::uint64_t *words,
                                  const Extents &call) {
  checkExtents("tree", words, {{"Sq", call.queries}, {"words", std::nullopt}});
}

flash::BlockKindConfig flash::detail::blockKindConfig(const BlocksFor &call, std::int64_t blockQ,
                                                      std::int64_t blockK) {
  const auto refuse = [](const std::string &why) { throw LaunchError("flash::blocks_of: " + why); };
  for (const std::int64_t size : {blockQ, blockK})
    if (size < 16 || size > 1024 || size % 16 != 0)
      refuse("blocks of " + std::to_string(blockQ) + " queries and " + std::to_string(blockK) +
             " keys, but these have to be multiples of 16, up to 1024");
  if (std::min({call.batches, call.heads, call.queries, call.keys}) < 0)
    refuse("a number of batches, heads, queries or keys is negative");
  // Operands are loaded in tiles, which must not cross blocks.
  const auto tile = [](std::int64_t size, std::int64_t most) {
    return static_cast<int>(std::min(size & -size, most));
  };
  return {.m = tile(blockQ, 32), .n = tile(blockK, 64)};
}

NamedTensors flash::detail::attend(const Stream &stream, Call call, const Launcher &launch) {
  return run(stream, false, std::move(call), launch);
}
NamedTensors flash::detail::backward(const Stream &stream, Call call, const Launcher &launch) {
  return run(stream, true, std::move(call), launch);
}
