// chunk_mean_pool: the mean of each chunk of a sequence, of sequences of one length or packed one
// behind the other, and its gradient:
//   y[c] = sum of x[t] over the n positions t of chunk c, / n; dx[t] = dy[c] / n.
// The plain definition, for sequences packed as flash-linear-attention packs them. A chunk below 1,
// and cu_seqlens beside several batches, are refused; cu_seqlens that falls or does not go from 0
// to T is refused from the host, and undefined on the device.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/pooling/Family.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Contents.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct ChunkMeanPoolConfig {
  int t = 16, d = 64, warps = 4;
  bool packed = false;
};

struct Chunk {
  Int start, length; // length 0: there is none of this number
};

// The chunk of this number, counted through all sequences: sequence s has ⌈length / chunk⌉ of them.
Chunk packedChunk(const View<const std::int32_t, 1> &bounds, const Int &number, const Int &chunk) {
  constexpr int block = 128;
  auto sequences = bounds.extent(0) - 1;
  Int before = 0;   // chunks of the sequences that end before this one
  Int sequence = 0; // how many those are
  Int chunksSoFar = 0;
  auto tile = bounds.tile(block);
  for (auto step : range(0, cdiv(sequences, block))) {
    auto first = step * block;
    auto inside = first + arange(0, block) < sequences;
    auto lengths = where(inside, tile.load_at(first + 1) - tile.load_at(first), 0);
    auto chunks = cast<Index>(cdiv(cast<Index>(lengths), chunk));
    auto ends = chunksSoFar + cumsum(chunks, 0);
    auto isBefore = inside && ends <= number;
    before += sum(where(isBefore, chunks, 0), 0);
    sequence += cast<Index>(sum(isBefore, 0));
    chunksSoFar += sum(chunks, 0);
  }
  auto exists = sequence < sequences;
  auto begin = cast<Index>(load(bounds.ptr() + sequence * bounds.stride(0), exists));
  auto end = cast<Index>(load(bounds.ptr() + (sequence + 1) * bounds.stride(0), exists));
  auto start = begin + (number - before) * chunk;
  return {where(exists, start, 0), where(exists, minimum(chunk, end - start), 0)};
}

Chunk chunkOf(const View<const std::int32_t, 1> &bounds, const Int &number, const Int &chunk,
              const Int &length, const ChunkMeanPoolConfig &config) {
  if (config.packed)
    return packedChunk(bounds, number, chunk);
  return {number * chunk, minimum(chunk, length - number * chunk)};
}

template <class T> struct ChunkMeanPoolArguments {
  View<const T, 4> x;
  View<const std::int32_t, 1> cu_seqlens;
  View<T, 4> y;
  Int chunk;
};

template <class T>
Kernel chunkMeanPool{
    "chunk_mean_pool", [](const ChunkMeanPoolArguments<T> &a, const ChunkMeanPoolConfig &config) {
      const auto &[x, bounds, y, chunk] = a;
      auto blocks = cdiv(x.extent(3), config.d);
      auto number = program_id(0) / blocks, column = program_id(0) % blocks;
      auto head = program_id(1), batch = program_id(2);
      auto [start, length] = chunkOf(bounds, number, chunk, x.extent(1), config);
      auto from = x.at(batch).fix(1, head).slice(0, start, length).tile(config.t, config.d);
      auto total = zeros<float>(config.t, config.d);
      for (auto block : range(0, cdiv(length, config.t)))
        total += cast<float>(from.load(block, column));
      y.at(batch, number, head)
          .tile(config.d)
          .store(column, sum(total, 0) / cast<float>(maximum(length, 1)));
    }};

template <class T> struct ChunkMeanPoolBackwardArguments {
  View<const std::int32_t, 1> cu_seqlens;
  View<const T, 4> dy;
  View<T, 4> dx;
  Int chunk;
};

template <class T>
Kernel chunkMeanPoolBackward{
    "chunk_mean_pool_backward",
    [](const ChunkMeanPoolBackwardArguments<T> &a, const ChunkMeanPoolConfig &config) {
      const auto &[bounds, dy, dx, chunk] = a;
      auto blocks = cdiv(dx.extent(3), config.d);
      auto number = program_id(0) / blocks, column = program_id(0) % blocks;
      auto head = program_id(1), batch = program_id(2);
      auto [start, length] = chunkOf(bounds, number, chunk, dx.extent(1), config);
      auto share = cast<float>(dy.at(batch, number, head).tile(config.d).load(column)) /
                   cast<float>(maximum(length, 1));
      auto to = dx.at(batch).fix(1, head).slice(0, start, length).tile(config.t, config.d);
      for (auto block : range(0, cdiv(length, config.t)))
        to.store(block, column, broadcast_to(expand(share, 0), config.t, config.d));
    }};

void derive(Invocation &call) {
  const std::int64_t chunk = call.options.integer("chunk"), length = call.extent("T");
  std::int64_t chunks = ceilDiv(length, chunk);
  if (call.has("cu_seqlens")) {
    if (call.extent("N") < 1)
      refuse(call, "cu_seqlens has one element more than sequences");
    chunks = length / chunk + call.extent("N") - 1;
    if (call.options.values.contains("chunks") && call.options.given("chunks"))
      chunks = call.options.integer("chunks");
  }
  call.extents["C"] = chunks;
}

void contents(const Invocation &call, std::span<const HostArray> inputs) {
  if (!call.has("cu_seqlens"))
    return;
  checkBoundaries(call, inputs, "cu_seqlens", call.extent("T"));
  const auto bounds = inputs[call.index("cu_seqlens")].as<std::int32_t>();
  std::int64_t chunks = 0;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
    chunks += ceilDiv(bounds[s + 1] - bounds[s], call.options.integer("chunk"));
  if (chunks > call.extent("C"))
    refuse(call, "the sequences have ", chunks, " chunks, but there is room for ",
           call.extent("C"));
}

const std::vector<OptionRow> options = {
    {"chunk: integer = 64 from 1 e.g. 16, 37",
     "positions of one chunk; the last of a sequence may have fewer"},
    {"chunks: integer from 0 e.g. 40",
     "with cu_seqlens: C, the rows of y; T / chunk + N - 1, which is always enough, if not given"}};

const std::vector<ConfigSpec> fields = {{"t", "positions held at once"},
                                        {"d", "columns of one program"},
                                        {"warps", "warps of one program"}};

// One warp, so that sums need neither shared memory nor barriers, with 32 elements for each thread.
Config defaults(const Invocation &call, const std::string &target) {
  const std::int64_t d = std::clamp<std::int64_t>(powerAtLeast(call.extent("D")), 16, 128);
  return {{"t", std::clamp<std::int64_t>(powerAtLeast(call.options.integer("chunk")), 1,
                                         32 * warpSize(target) / d)},
          {"d", d},
          {"warps", 1}};
}

std::vector<SearchSpace> spaces() {
  return {
      {.axes = {{"t", {1, 4, 8, 16, 32, 64}}, {"d", {16, 32, 64, 128, 256}}, {"warps", {1, 2, 4}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t numbers =
             config.at("t") * config.at("d") / (config.at("warps") * warpSize(target));
         return numbers <= 64 && config.at("t") < 2 * call.options.integer("chunk") &&
                (config.at("d") == 16 || config.at("d") < 2 * call.extent("D"));
       }}};
}

ChunkMeanPoolConfig configOf(const Use &use) {
  return use.config_as(ChunkMeanPoolConfig{.packed = use.has("cu_seqlens")});
}

Grid gridOf(const Use &use, const ChunkMeanPoolConfig &config) {
  return Grid(use.extent("C") * ceilDiv(use.extent("D"), config.d), use.extent("H"),
              use.extent("B"));
}

} // namespace

KernelSpec sectile::chunkMeanPoolSpec() {
  KernelSpec spec;
  spec.name = "chunk_mean_pool";
  spec.summary = "y = the mean of each chunk of positions of x";
  spec.add_arguments(
      {{"x: [B, T, H, D] f32|f16|bf16", "H heads of width D at each position"},
       packedArgument("N"),
       {"-> y: [B, C, H, D] like x", "summed in f32; C is T / chunk rounded up. With cu_seqlens "
                                     "the chunks of all sequences in order, then rows of 0"}});
  spec.add_options(options);
  spec.config = fields;
  spec.typical = {{"B", 1}, {"T", 32768}, {"H", 16}, {"D", 128}, {"N", 9}};
  spec.small = {{"B", 1}, {"T", 150}, {"H", 2}, {"D", 24}, {"N", 4}};
  spec.check = [](const Invocation &call) {
    checkPacked(call, "N");
    if (!call.has("cu_seqlens") && call.options.given("chunks"))
      refuse(call, "option 'chunks' goes with cu_seqlens");
  };
  spec.derive = derive;
  spec.contents = contents;
  spec.reference = chunkMeanPoolReference;
  spec.defaults = defaults;
  spec.spaces = spaces();
  spec.apply = [](Use &use) {
    const auto config = configOf(use);
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(chunkMeanPool<T>, gridOf(use, config), config);
    });
  };
  return spec;
}

KernelSpec sectile::chunkMeanPoolBackwardSpec() {
  KernelSpec spec;
  spec.name = "chunk_mean_pool_backward";
  spec.summary = "dx = dy of each position's chunk / the positions of that chunk";
  spec.add_arguments(
      {{"x: [B, T, H, D] f32|f16|bf16", "the forward kernel's; only its shape matters"},
       packedArgument("N"),
       {"dy: [B, C, H, D] like x", "gradient of y"},
       {"-> dx: [B, T, H, D] like x", "gradient of x"}});
  spec.add_options({options[0]});
  spec.config = fields;
  spec.typical = {{"B", 1}, {"T", 32768}, {"H", 16}, {"D", 128}, {"N", 2}};
  spec.small = {{"B", 1}, {"T", 150}, {"H", 2}, {"D", 24}, {"N", 2}};
  spec.follow = derive;
  spec.check = [](const Invocation &call) {
    checkPacked(call, "N");
    const std::int64_t chunks = ceilDiv(call.extent("T"), call.options.integer("chunk"));
    if (!call.has("cu_seqlens") && call.extent("C") != chunks)
      refuse(call, "dy has ", call.extent("C"), " chunks, but x has ", chunks);
  };
  spec.contents = contents;
  spec.reference = chunkMeanPoolBackwardReference;
  spec.factor = 3;
  spec.defaults = defaults;
  spec.spaces = spaces();
  spec.apply = [](Use &use) {
    const auto config = configOf(use);
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(chunkMeanPoolBackward<T>, gridOf(use, config), config);
    });
  };
  return spec;
}
