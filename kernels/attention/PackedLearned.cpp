// The gradients of learned operands over packed sequences. Only cu_seqlens on the device knows
// which part belongs to which sequence, and how much of one a sequence has.
#include "kernels/attention/PackedLearned.h"
#include "kernels/blocks/RowBlocks.h"
#include <algorithm>

using namespace sectile;
using flash::Along;

namespace {

struct SequenceSumsConfig {
  int rows = 32, columns = 32, warps = 4;
  // Parts are of programs, each of a block of so many queries, and are [1, H, programs, W]. 0: of
  // sequences, of which each has written as many elements as it has tokens, [B, H, 1, W].
  int size = 0;
};
SECTILE_CONFIG(SequenceSumsConfig, rows, columns, warps, size)

// starts: of the tokens that programs or elements are of, `total` in all.
Kernel sequenceSums{
    "flash_packed_shared",
    [](View<const float, 4> parts, View<const std::int32_t, 1> starts, Int total,
       View<float, 3> gradient, const SequenceSumsConfig &config) {
      const Int sequences = starts.extent(0) - 1, batch = program_id(2),
                heads = parts.extent(1) / gradient.extent(1), width = parts.extent(3);
      const Bool all = gradient.extent(0) == 1;
      const auto start = [&](const Int &sequence) {
        const auto token = load(starts.ptr() + starts.stride(0) * sequence, sequence <= sequences);
        return Int(clamp(cast<Index>(token), Int(0), total));
      };
      Int first = where(all, Int(0), batch), end = where(all, sequences, batch + 1);
      if (config.size) {
        // As packedBlock counts.
        const auto firstProgram = [&](const Int &sequence) {
          return start(sequence) / config.size + sequence;
        };
        first = where(all, Int(0), firstProgram(batch));
        // No program is behind those that the grid had, wherever sequences end.
        end = where(all, parts.extent(2), minimum(firstProgram(batch + 1), parts.extent(2)));
      }
      const Int column = expand(program_id(0) * config.columns + arange(0, config.columns), 0);
      auto sums = zeros<float>(config.rows, config.columns);
      for (auto h : range(0, heads)) {
        const auto own = parts.fix(1, program_id(1) * heads + h);
        for (auto chunk : range(0, cdiv(end - first, config.rows))) {
          const Int row = expand(first + chunk * config.rows + arange(0, config.rows), 1);
          Bool exists = row < end && column < width;
          if (!config.size)
            exists = exists && column < start(row + 1) - start(row);
          sums += load(own.ptr() + cast<std::int64_t>(row) * own.stride(config.size ? 1 : 0) +
                           cast<std::int64_t>(column) * own.stride(2),
                       exists);
        }
      }
      gradient.at(batch, program_id(1)).tile(config.columns).store(program_id(0), sum(sums, 0));
    }};

void addSequences(Use &use, const Tensor<float, 4> &parts, const char *starts,
                  const Tensor<float, 4> &gradient, int size) {
  SequenceSumsConfig config{.size = size};
  const std::int64_t rows = size ? parts.extent(2) : parts.extent(0);
  config.rows = static_cast<int>(powerAtLeast(std::clamp<std::int64_t>(rows, 1, 32)));
  config.columns = 1024 / config.rows;
  const std::int64_t batches = gradient.extent(0), heads = gradient.extent(1),
                     width = gradient.extent(3);
  const bool ofKeys = starts == std::string_view("cu_seqlens_k");
  use(sequenceSums, Grid(ceilDiv(width, config.columns), heads, batches), parts,
      use.tensor<std::int32_t, 1>(starts), use.extent(ofKeys ? "Tk" : "Tq"),
      withAxes<3>(gradient, {batches, heads, width},
                  {gradient.stride(0), gradient.stride(1), gradient.stride(3)}),
      config);
}

} // namespace

void sectile::launchPackedGradients(Use &use, const AttentionNumbers &numbers, bool modified,
                                    const std::vector<flash::detail::LearnedGradient> &learned,
                                    const flash::detail::Launcher &launch) {
  using flash::detail::Launch;
  const std::int64_t sequences = use.extent("B1") - 1, heads = use.extent("Hq");
  const auto isOfPrograms = [](Along along) {
    return along == Along::heads || along == Along::distances;
  };
  std::vector<Tensor<float, 4>> parts;
  int size = 0; // queries of a program that has a part
  launchVarlenGradients(use, numbers, modified, [&](Use &use, Launch each) {
    const bool ofQueries = each.of == Launch::Of::queries;
    if (ofQueries)
      size = each.config.m;
    for (std::size_t i = 0; ofQueries && i < learned.size(); ++i) {
      const auto &[along, slot, gradient] = learned[i];
      const std::int64_t width = gradient.extent(3);
      parts.push_back(along == Along::pairs ? gradient
                      : isOfPrograms(along)
                          ? use.workspace<float, 4>({1, heads, each.grid.x, width})
                          : use.workspace<float, 4>({sequences, heads, 1, width}));
    }
    each.learned = parts;
    launch(use, each);
    for (const auto &one : learned)
      if (ofQueries && one.along == Along::pairs) {
        Launch ofPairs = each;
        ofPairs.of = Launch::Of::pairs;
        ofPairs.grid = Grid(ceilDiv(one.gradient.extent(2), each.config.m) *
                                ceilDiv(one.gradient.extent(3), each.config.n),
                            one.gradient.extent(1), one.gradient.extent(0));
        ofPairs.pairs = &one;
        launch(use, ofPairs);
      }
    for (std::size_t i = 0; !ofQueries && i < learned.size(); ++i)
      if (const Along along = learned[i].along; along != Along::pairs)
        addSequences(use, parts[i], along == Along::keys ? "cu_seqlens_k" : "cu_seqlens_q",
                     learned[i].gradient, isOfPrograms(along) ? size : 0);
  });
}
