// block_sparse_attention and its gradients: attention, with all of its options, in which a mask
// says what blocks of keys a block of queries sees, and others cost nothing:
//   o = softmax(s) v over the keys j with block_mask[i / block_q, j / block_k],
// as block-sparse FlashAttention (Dao et al., arXiv 2205.14135). The formulas are those of
// attention and attention_backward. Refused: blocks that are no multiples of 16 up to 1024, a mask
// of other extents, tiles that do not divide blocks. A row that sees nothing gives o = 0, and lse =
// -inf without sinks.
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionKernels.h"
#include "kernels/attention/References.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/PresentBlocks.h"
#include <algorithm>
#include <numeric>

using namespace sectile;
using serving::PresentBlocks;

namespace {

struct MaskBlocks {
  int blockQ = 64, blockK = 64;
};
using BlockSparseConfig = JoinedConfig<AttentionConfig, MaskBlocks>;

// What a kernel gets beside tensors and numbers of the loops.
template <class T> struct BlockSparseOptions {
  blockwise::OptionArguments<T> given;
  PresentBlocks present;
};

// The options of a call, in blocks that a list has.
class ListedOptions final : public flash::AnyVisibility {
public:
  template <class T>
  ListedOptions(const BlockSparseConfig &config, const BlockSparseOptions<T> &of)
      : config(config), present(of.present), options(config, of.given) {}

  flash::ScoreRules rules(const flash::Numbers &launched) const {
    return {launched, options.modifier(), *this};
  }

  flash::Interval keysOf(const flash::Sequence &sequence, const Int &query) const override {
    return options.keysOf(sequence, query);
  }
  flash::Interval queriesOf(const flash::Sequence &sequence, const Int &key) const override {
    return options.queriesOf(sequence, key);
  }
  std::optional<Bool> sees(const flash::At &at) const override { return options.sees(at); }
  std::optional<flash::BlockList> keyBlocks(const flash::Sequence &sequence,
                                            const Int &block) const override {
    return present.of(sequence, block, config.blockQ / config.m, config.blockK / config.n);
  }
  std::optional<flash::BlockList> queryBlocks(const flash::Sequence &sequence,
                                              const Int &block) const override {
    return present.of(sequence, block, config.blockK / config.n, config.blockQ / config.m);
  }

private:
  const BlockSparseConfig &config;
  PresentBlocks present;
  blockwise::OptionScores options;
};

struct BlocksAndOptions {
  static constexpr const char *forward = "block_sparse_attention",
                              *ofQueries = "block_sparse_attention_backward_q",
                              *ofKeys = "block_sparse_attention_backward_kv",
                              *ofBias = "block_sparse_attention_backward_bias";
  template <class T> using Arguments = BlockSparseOptions<T>;
  using Config = BlockSparseConfig;
  using Scores = ListedOptions;
};

// Makes the lists of blocks of queries or of keys, for all batches and heads of the mask; what it
// gives is for all batches and heads of q.
Arguments<PresentBlocks> listPresent(Use &use, const AttentionNumbers &numbers, bool ofQueries) {
  const Invocation &call = use.call;
  auto mask = use.tensor<bool, 4>("block_mask");
  if (!ofQueries)
    mask = mask.permute({0, 1, 3, 2});
  const auto [batches, heads, rows, columns] = mask.extents();
  const auto lists = use.workspace<std::int32_t, 4>({batches, heads, rows, 1 + columns});
  const serving::BlockListConfig config{.blockQ = static_cast<int>(call.options.integer("block_q")),
                                        .blockK = static_cast<int>(call.options.integer("block_k")),
                                        .left = numbers.leftBounded,
                                        .right = numbers.rightBounded,
                                        .ofQueries = ofQueries};
  use(serving::listBlocks, Grid(rows, heads, batches), mask, lists, call.extent("Sq"),
      call.extent("Sk"), numbers.left, numbers.right, config);
  const std::int64_t all = call.extent("B"), ofAll = call.extent("Hq");
  const auto stride = [&](const auto &of, int axis) {
    return of.extents()[static_cast<std::size_t>(axis)] == 1 ? 0 : of.stride(axis);
  };
  return {withAxes<4>(lists, {all, ofAll, rows, 1 + columns},
                      {stride(lists, 0), stride(lists, 1), 1 + columns, 1}),
          withAxes<4>(mask, {all, ofAll, rows, columns},
                      {stride(mask, 0), stride(mask, 1), mask.stride(2), mask.stride(3)})};
}

// An axis of the mask is as long as another one in blocks of as many as an option says, of which
// the tiles of some fields are parts.
struct MaskAxis {
  const char *option, *axis, *length, *blocks;
  std::vector<std::string> tiles;
};
const MaskAxis maskAxes[] = {{"block_q", "Mq", "Sq", "queries", {"m", "q_m", "kv_m"}},
                             {"block_k", "Mk", "Sk", "keys", {"n", "q_n", "kv_n"}}};

template <class F> void forTiles(const Invocation &call, ConfigValues &config, F &&f) {
  for (const MaskAxis &axis : maskAxes)
    for (const std::string &tile : axis.tiles)
      if (const auto found = config.find(tile); found != config.end())
        f(found->second, call.options.integer(axis.option), tile, axis);
}

bool tilesDivide(const Invocation &call, ConfigValues config) {
  bool divide = true;
  forTiles(call, config,
           [&](std::int64_t tile, std::int64_t block, const std::string &, const MaskAxis &) {
             divide &= tile > 0 && block % tile == 0;
           });
  return divide;
}

BlockSparseConfig configOf(const Use &use, const AttentionConfig &loops) {
  ConfigValues config = use.config;
  forTiles(
      use.call, config,
      [&](std::int64_t tile, std::int64_t block, const std::string &name, const MaskAxis &axis) {
        if (tile < 1 || block % tile)
          refuse(use.call, name, " (", tile, ") must divide ", axis.option, " (", block, ")");
      });
  return {loops,
          {static_cast<int>(use.call.options.integer("block_q")),
           static_cast<int>(use.call.options.integer("block_k"))}};
}

// Attention's tiles, cut where they do not divide blocks. Two warpgroups that are left with the
// rows of one work on different columns, which pays where one does not hold what it sums.
void fitTiles(const Invocation &call, ConfigValues &config) {
  forTiles(call, config,
           [](std::int64_t &tile, std::int64_t block, const std::string &, const MaskAxis &) {
             tile = std::gcd(powerAtMost(std::max<std::int64_t>(tile, 1)), block);
           });
  const std::int64_t width = std::max(call.extent("D"), call.extent("Dv"));
  struct Rows {
    std::string prefix;
    const char *rows;
    std::int64_t oneHolds; // width that one warpgroup does
  };
  for (const auto &[prefix, rows, oneHolds] :
       {Rows{"", "m", 128}, {"q_", "m", 128}, {"kv_", "n", 64}}) {
    const auto found = config.find(prefix + rows);
    if (found == config.end() || found->second >= 16 * config.at(prefix + "warps") ||
        config.at(prefix + "warps") <= 4 || (found->second == 64 && width > oneHolds))
      continue;
    config[prefix + "warps"] = 4;
    config[prefix + "overlap"] = 0;
  }
}

// attention's or attention_backward's description, with blocks.
KernelSpec withBlocks(KernelSpec spec) {
  spec.name = "block_sparse_" + spec.name;
  for (const MaskAxis &each : maskAxes)
    spec.add_options({{each.option + std::string(": integer = 64 e.g. 16, 128"),
                       each.blocks + std::string(" of a block of the mask, a multiple of 16")}});
  spec.add_arguments({{"block_mask: [1|B, 1|Hq, Mq, Mk] bool",
                       "true where a block of queries sees a block of keys",
                       {.sample = sampleIntegers(0, 1)}}});
  std::rotate(spec.arguments.begin() + 3, spec.arguments.end() - 1,
              spec.arguments.end()); // behind v
  spec.small["Sq"] = 150;
  spec.small["Sk"] = 140;
  spec.flops = nullptr; // only the mask knows
  spec.follow = [](Invocation &call) {
    for (const auto &[option, axis, length, blocks, tiles] : maskAxes)
      call.extents[axis] =
          ceilDiv(call.extent(length), std::max<std::int64_t>(call.options.integer(option), 1));
  };
  spec.check = [](const Invocation &call) {
    checkAttention(call);
    for (const auto &[option, axis, length, blocks, tiles] : maskAxes) {
      const std::int64_t size = call.options.integer(option);
      if (size < 16 || size > 1024 || size % 16)
        refuse(call, "option '", option, "' is ", size,
               ", but must be a multiple of 16 up to 1024");
      if (call.extent(axis) != ceilDiv(call.extent(length), size))
        refuse(call, "the mask has ", call.extent(axis), " blocks of ", blocks, ", but ",
               call.extent(length), " of them in blocks of ", size, " are ",
               ceilDiv(call.extent(length), size));
    }
  };
  spec.defaults = [whole = spec.defaults](const Invocation &call, const std::string &target) {
    ConfigValues config = whole(call, target);
    fitTiles(call, config);
    return config;
  };
  for (SearchSpace &space : spec.spaces) {
    space.part = space.part.empty() ? spec.name : "block_sparse_" + space.part;
    space.where = [fits = space.where](const Invocation &call, const std::string &target,
                                       const ConfigValues &config) {
      return tilesDivide(call, config) && fits(call, target, config);
    };
  }
  return spec;
}

AttentionSettings settingsOf(const Invocation &call, std::span<const HostArray> inputs) {
  AttentionSettings settings = attentionSettings(call, inputs);
  settings.blockMask = &inputs[call.index("block_mask")];
  settings.blockQueries = call.options.integer("block_q");
  settings.blockKeys = call.options.integer("block_k");
  return settings;
}

} // namespace

KernelSpec sectile::blockSparseAttentionSpec() {
  KernelSpec spec = withBlocks(blockAttentionSpec());
  spec.summary = "attention over the blocks of keys that a mask of blocks has, and no others";
  spec.reference = forwardReference(settingsOf);
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const AttentionNumbers numbers(call);
    BlockSparseConfig chosen =
        configOf(use, forwardConfig(use, numbers, modifiesScores(use, numbers)));
    chosen.heads = headsAtOnce(call, "Hq", keyBytes(call));
    const auto present = listPresent(use, numbers, true);
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      use(attentionKernel<BlocksAndOptions, T>,
          headGrid(call, chosen, ceilDiv(call.extent("Sq"), chosen.m), call.extent("Hq")),
          Arguments<flash::ForwardTensors<T>>{use.tensor<T, 4>("q"), use.tensor<T, 4>("k"),
                                              use.tensor<T, 4>("v"), use.tensor<T, 4>("o"),
                                              use.tensor<float, 3>("lse"), sinksOf(use)},
          launchNumbers(use, numbers, groupOf(call)),
          Arguments<BlockSparseOptions<T>>{optionArguments<T>(use, numbers), present}, chosen);
    });
  };
  return spec;
}

KernelSpec sectile::blockSparseAttentionBackwardSpec() {
  KernelSpec spec = withBlocks(attentionBackwardSpec());
  spec.summary = "gradients of block_sparse_attention";
  spec.reference = backwardReference(settingsOf);
  spec.apply = [](Use &use) {
    const AttentionNumbers numbers(use.call);
    const auto forQueries = listPresent(use, numbers, true),
               forKeys = listPresent(use, numbers, false);
    launchGradientKernels<BlocksAndOptions>(
        use, numbers, GradientTensors(use),
        [&]<class T>(T, bool ofKeys) {
          return Arguments<BlockSparseOptions<T>>{optionArguments<T>(use, numbers),
                                                  ofKeys ? forKeys : forQueries};
        },
        [&](const AttentionConfig &loops) { return configOf(use, loops); });
  };
  return spec;
}
