// block_sparse_attention and its gradients: attention, with all of its options, in which a mask
// says what blocks of keys a block of queries sees, and others cost nothing:
//   o = softmax(s) v over the keys j with block_mask[i / block_q, j / block_k],
// as block-sparse FlashAttention (Dao et al., arXiv 2205.14135). The formulas are those of
// attention and attention_backward. Refused: blocks that are no multiples of 16 up to 1024, a mask
// of other extents, tiles that do not divide blocks. A row that sees nothing gives o = 0, and lse =
// -inf without sinks.
#include "kernels/attention/Backward.h"
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/attention/References.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/PresentBlocks.h"
#include <algorithm>
#include <bit>
#include <numeric>
#include <sectile/error.h>

using namespace sectile;
using serving::PresentBlocks;

namespace {

struct MaskBlocks {
  int blockQ = 64, blockK = 64;
};
SECTILE_CONFIG(MaskBlocks, blockQ, blockK)
struct BlockSparseConfig : AttentionConfig, MaskBlocks {};
constexpr auto sectileConfigFields(std::type_identity<BlockSparseConfig>) {
  return std::tuple_cat(config_fields<AttentionConfig>, config_fields<MaskBlocks>);
}

// What a kernel gets beside tensors and numbers of the loops.
template <class T> struct BlockSparseOptions {
  View<const T, 4> bias;
  View<const bool, 4> mask;
  blockwise::OptionNumbers limits;
  PresentBlocks present;
};
template <class T>
SECTILE_STRUCT(BlockSparseOptions<T>, bias, mask, limits, present)

// The options of a call, in blocks that a list has.
class ListedOptions final : public flash::AnyVisibility {
public:
  template <class T>
  ListedOptions(const BlockSparseConfig &config, const BlockSparseOptions<T> &of)
      : config(config), present(of.present), options(config, of.limits, of.bias, of.mask) {}

  flash::Modifier modifier() const { return options.modifier(); }

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

template <class T>
Kernel forward{"block_sparse_attention",
               [](flash::ForwardTensors<T> tensors, flash::Numbers numbers,
                  BlockSparseOptions<T> options, const BlockSparseConfig &config) {
                 const ListedOptions listed(config, options);
                 flash::traceForward<T>(config, tensors, numbers, listed.modifier(), listed);
               }};

template <class T>
Kernel queryGradients{"block_sparse_attention_backward_q",
                      [](flash::BackwardTensors<T> in, View<T, 4> dq, flash::Numbers numbers,
                         BlockSparseOptions<T> options, const BlockSparseConfig &config) {
                        const ListedOptions listed(config, options);
                        flash::traceQueryGradients<T>(config, in, dq, numbers, listed.modifier(),
                                                      listed);
                      }};

template <class T, class Sum>
Kernel keyGradients{
    "block_sparse_attention_backward_kv",
    [](flash::BackwardTensors<T> in, View<Sum, 4> dk, View<Sum, 4> dv, View<float, 4> dqSums,
       flash::Numbers numbers, BlockSparseOptions<T> options, const BlockSparseConfig &config) {
      const ListedOptions listed(config, options);
      flash::traceKeyGradients<T>(config, in, dk, dv, dqSums, numbers, listed.modifier(), listed);
    }};

template <class T>
Kernel biasGradients{"block_sparse_attention_backward_bias",
                     [](flash::BackwardTensors<T> in, View<T, 4> dbias, flash::Numbers numbers,
                        BlockSparseOptions<T> options, const BlockSparseConfig &config) {
                       const ListedOptions listed(config, options);
                       blockwise::biasGradients<T>(config, in, dbias, numbers, listed.modifier(),
                                                   listed);
                     }};

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

template <class T>
Arguments<BlockSparseOptions<T>> optionsOf(const Use &use, const AttentionNumbers &numbers,
                                           const Arguments<PresentBlocks> &present) {
  return {perPair<T>(use, "bias"), perPair<bool>(use, "mask"), optionNumbers(numbers), present};
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

BlockSparseConfig configOf(const Use &use, const flash::LoopConfig &loops,
                           const AttentionNumbers &numbers) {
  ConfigValues config = use.config;
  forTiles(
      use.call, config,
      [&](std::int64_t tile, std::int64_t block, const std::string &name, const MaskAxis &axis) {
        if (tile < 1 || block % tile)
          throw InputError(use.call.kernel->name + ": " + name + " (" + std::to_string(tile) +
                           ") must divide " + axis.option + " (" + std::to_string(block) + ")");
      });
  return {{loops, optionFlags(use, numbers)},
          {static_cast<int>(use.call.options.integer("block_q")),
           static_cast<int>(use.call.options.integer("block_k"))}};
}

// Attention's tiles, cut where they do not divide blocks. Two warpgroups that are left with the
// rows of one work on different columns, which pays where one does not hold what it sums.
void fitTiles(const Invocation &call, ConfigValues &config) {
  forTiles(call, config,
           [](std::int64_t &tile, std::int64_t block, const std::string &, const MaskAxis &) {
             const auto whole =
                 std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(tile, 1)));
             tile = std::gcd(static_cast<std::int64_t>(whole), block);
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
KernelSpec withBlocks(KernelSpec spec, const std::string &name) {
  spec.name = name;
  for (OptionSpec &option : spec.options)
    if (option.name == "precision")
      option.initial = "exact";
  for (const MaskAxis &each : maskAxes)
    spec.options.push_back(
        {.name = each.option,
         .kind = OptionSpec::integer,
         .initial = "64",
         .samples = {"16", "128"},
         .doc = std::string(each.blocks) + " of a block of the mask, a multiple of 16"});
  spec.arguments.insert(spec.arguments.begin() + 3, // behind q, k and v
                        {.name = "block_mask",
                         .axes = {"1|B", "1|Hq", "Mq", "Mk"},
                         .dtypes = {DType::boolean},
                         .sample =
                             [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
                               for (bool &present : array.as<bool>())
                                 present = random() % 2 == 0;
                             },
                         .doc = "true where a block of queries sees a block of keys"});
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
        throw InputError(call.kernel->name + ": option '" + option + "' is " +
                         std::to_string(size) + ", but must be a multiple of 16 up to 1024");
      if (call.extent(axis) != ceilDiv(call.extent(length), size))
        throw InputError(call.kernel->name + ": the mask has " + std::to_string(call.extent(axis)) +
                         " blocks of " + blocks + ", but " + std::to_string(call.extent(length)) +
                         " of them in blocks of " + std::to_string(size) + " are " +
                         std::to_string(ceilDiv(call.extent(length), size)));
    }
  };
  spec.defaults = [whole = spec.defaults](const Invocation &call, const std::string &target) {
    ConfigValues config = whole(call, target);
    fitTiles(call, config);
    return config;
  };
  for (SearchSpace &space : spec.spaces) {
    if (!space.part.empty())
      space.part = "block_sparse_" + space.part;
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
  KernelSpec spec = withBlocks(oneBlockEach(attentionSpec()), "block_sparse_attention");
  spec.summary = "attention over the blocks of keys that a mask of blocks has, and no others";
  spec.spaces.front().part = forward<half>.name();
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result =
        attentionReference(inputs[0], inputs[1], inputs[2], settingsOf(call, inputs), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const AttentionNumbers numbers(call);
    flash::LoopConfig loops = forwardConfig(use, numbers, modifiesScores(use, numbers));
    loops.heads = headsAtOnce(call, "Hq", keyBytes(call));
    const BlockSparseConfig chosen = configOf(use, loops, numbers);
    const auto present = listPresent(use, numbers, true);
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      use(forward<T>,
          headGrid(call, chosen, ceilDiv(call.extent("Sq"), chosen.m), call.extent("Hq")),
          Arguments<flash::ForwardTensors<T>>{use.tensor<T, 4>("q"), use.tensor<T, 4>("k"),
                                              use.tensor<T, 4>("v"), use.tensor<T, 4>("o"),
                                              use.tensor<float, 3>("lse"), sinksOf(use)},
          launchNumbers(numbers, groupOf(call)), optionsOf<T>(use, numbers, present), chosen);
    });
  };
  return spec;
}

KernelSpec sectile::blockSparseAttentionBackwardSpec() {
  KernelSpec spec = withBlocks(attentionBackwardSpec(), "block_sparse_attention_backward");
  spec.summary = "gradients of block_sparse_attention";
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result = attentionBackwardReference(inputs[0], inputs[1], inputs[2], inputs[4], inputs[5],
                                             inputs[6], settingsOf(call, inputs), 0, arithmetic);
    return std::vector{result.dq, result.dk, result.dv, result.dbias, result.dsinks};
  };
  spec.apply = [](Use &use) {
    using flash::detail::Launch;
    const Invocation &call = use.call;
    const AttentionNumbers numbers(call);
    const auto ofQueries = listPresent(use, numbers, true),
               ofKeys = listPresent(use, numbers, false);
    launchGradients(
        use, numbers, modifiesScores(use, numbers), {}, GradientTensors(use),
        [&](Use &use, const Launch &launch) {
          for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
            const auto with = [&](const auto &kernel, const Grid &grid,
                                  const flash::LoopConfig &loops, const auto &numbersOf,
                                  const auto &present, const auto &...results) {
              use(kernel, grid,
                  Arguments<flash::BackwardTensors<T>>{
                      use.tensor<T, 4>("q"), use.tensor<T, 4>("k"), use.tensor<T, 4>("v"),
                      use.tensor<T, 4>("do"), launch.logs.as<const float, 3>(),
                      launch.delta.as<const float, 3>()},
                  results..., numbersOf, optionsOf<T>(use, numbers, present),
                  configOf(use, loops, numbers));
            };
            const auto keys = [&]<class Sum>(Sum) {
              with(keyGradients<T, Sum>, launch.grid, launch.config, launch.numbers, ofKeys,
                   launch.dk.as<Sum, 4>(), launch.dv.as<Sum, 4>(), launch.dqSums.as<float, 4>());
              if (!use.has("bias"))
                return;
              const flash::LoopConfig loops = attentionConfig(use, numbers, "q_");
              const auto dbias = use.tensor<T, 4>("dbias");
              const std::int64_t blocks =
                  ceilDiv(call.extent("Sq"), loops.m) * ceilDiv(call.extent("Sk"), loops.n);
              with(biasGradients<T>, Grid(blocks, dbias.extent(1), dbias.extent(0)), loops,
                   launchNumbers(numbers, groupOf(call)), ofQueries, dbias);
            };
            if (launch.of == Launch::Of::queries)
              with(queryGradients<T>, launch.grid, launch.config, launch.numbers, ofQueries,
                   use.tensor<T, 4>("dq"));
            else if (launch.of == Launch::Of::keys)
              keys(T());
            else
              keys(float());
          });
        });
  };
  return spec;
}
