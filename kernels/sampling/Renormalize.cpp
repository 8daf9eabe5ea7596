// renormalize: of each row of probabilities those that stay, as `sample` says, divided by their
// sum; the others are 0. Of equals the lowest indices stay. A row whose sum is 0, NaN or infinite
// is NaN.
//
// Instead of sorting, the last number that stays is found by its bits, two at a time: whether one
// stays depends on how many are larger, and on their sum, which fall as it grows.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/references/Sample.h"
#include "kernels/sampling/Cuts.h"
#include "kernels/sampling/Family.h"
#include "kernels/sampling/Race.h"
#include "kernels/sampling/References.h"

using namespace sectile;

namespace {

struct RenormalizeConfig {
  int row_block = 8192, warps = 16;
  bool top_ks = false, top_ps = false;
  bool cutsTwice = false; // by a top_p of the top_k
};

struct RenormalizeArguments {
  View<const float, 2> probs;
  View<const std::int32_t, 1> top_ks;
  View<const float, 1> top_ps;
  Int top_k;
  Float top_p;
  View<float, 2> y;
};

Kernel renormalize{
    "renormalize", [](const RenormalizeArguments &a, const RenormalizeConfig &config) {
      const int n = config.row_block;
      const Int row = program_id(0), tokens = a.probs.extent(1), blocks = cdiv(tokens, n);
      const auto take = [&](const Int &block) { return a.probs.at(row).tile(n).load(block); };
      const auto sumOf = [&](auto &&each) {
        auto sums = zeros<float>(n);
        for (auto block : range(0, blocks))
          sums += each(take(block));
        return sum(sums, 0);
      };
      const Tile<std::int32_t> k = config.top_ks ? load(a.top_ks.ptr() + row * a.top_ks.stride(0))
                                                 : cast<std::int32_t>(a.top_k);
      const Float p = config.top_ps ? load(a.top_ps.ptr() + row * a.top_ps.stride(0)) : a.top_p;
      const Float all = sumOf([](const Tile<float> &x) { return x; });
      Float total = all;
      if (config.cutsTwice)
        when(k > 0 && k < cast<std::int32_t>(tokens) && p < 1.0f, [&] {
          total = weightOfFirst(k, blocks, n, take, [](const Tile<float> &x) { return x; });
        });

      // The bits of the last that stays, as far as they are known: those of 0 or more.
      Tile<std::uint32_t> last = 1u << 31;
      Tile<std::int32_t> count = 0; // of the larger ones
      Float mass = 0.0f;            // and their sum
      for (auto step : range(0, 16)) {
        const auto shift = cast<std::uint32_t>(30 - 2 * step);
        constexpr int pivots = 3;
        std::array<Tile<std::int32_t>, pivots> counts;
        std::array<Tile<float>, pivots> masses;
        std::array<Tile<std::uint32_t>, pivots> bounds;
        for (int i = 0; i < pivots; ++i) {
          counts[i] = zeros<std::int32_t>(n);
          masses[i] = zeros<float>(n);
          bounds[i] = last | (Tile<std::uint32_t>(std::uint32_t(i)) << shift) |
                      ((Tile<std::uint32_t>(1u) << shift) - 1u);
        }
        for (auto block : range(0, blocks)) {
          const auto x = take(block);
          const auto bits = bitsInOrder(x);
          for (int i = 0; i < pivots; ++i) {
            const auto above = bits > bounds[i];
            counts[i] += cast<std::int32_t>(above);
            masses[i] += where(above, x, 0.0f);
          }
        }
        Tile<std::uint32_t> digit = 3u;
        for (int i = pivots; i-- > 0;) {
          const auto here = cast<std::int32_t>(sum(counts[i], 0));
          const auto sumHere = sum(masses[i], 0);
          const Bool stays =
              here == 0 || ((k <= 0 || here < k) && (p >= 1.0f || sumHere < p * total));
          digit = where(stays, std::uint32_t(i), digit);
          count = where(stays, here, count);
          mass = where(stays, sumHere, mass);
        }
        last = last | (digit << shift);
      }

      // So many of those that equal it.
      const Float value = numberOf(last);
      auto equals = zeros<std::int32_t>(n);
      for (auto block : range(0, blocks))
        equals += cast<std::int32_t>(bitsInOrder(take(block)) == last);
      Tile<std::int32_t> many = cast<std::int32_t>(sum(equals, 0));
      many = where(k > 0, minimum(many, k - count), many);
      const Float wanted = ceil((p * total - mass) / value);
      many = where(p < 1.0f && wanted < cast<float>(many),
                   maximum(cast<std::int32_t>(wanted), where(count == 0, 1, 0)), many);
      const Float kept = mass + cast<float>(many) * value;
      const Bool isProper = all > 0.0f && all < std::numeric_limits<float>::infinity();
      Tile<std::int32_t> before = 0;
      for (auto block : range(0, blocks)) {
        const auto x = take(block);
        const auto bits = bitsInOrder(x);
        const auto equal = bits == last;
        const auto upTo = cast<std::int32_t>(cumsum(cast<std::int32_t>(equal), 0)) + before;
        const auto result = where(bits > last || (equal && upTo <= many), x / kept, 0.0f);
        a.y.at(row).tile(n).store(block,
                                  where(isProper, result, std::numeric_limits<float>::quiet_NaN()));
        before = before + cast<std::int32_t>(sum(equal, 0));
      }
    }};

} // namespace

KernelSpec sectile::renormalizeSpec() {
  KernelSpec spec;
  spec.name = "renormalize";
  spec.summary = "the most probable of each row, divided by their sum; 0 for the others";
  const auto probabilities = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    sampleUniform(0, 2.0 / static_cast<double>(std::max<std::int64_t>(call.extent("V"), 1)))(
        call, array, random);
  };
  spec.add_arguments({{"probs: [B, V] f32", "not below 0", {.sample = probabilities}},
                      {"top_ks?: [B] i32",
                       "of each row, in place of the option",
                       {.sample = sampleIntegers(0, 40)}},
                      {"top_ps?: [B] f32", "likewise", {.sample = sampleUniform(0.2, 1.1)}},
                      {"-> y: [B, V] f32 over probs", "those that stay sum to 1"}});
  spec.add_options(cutOptions());
  spec.config = {{"row_block", "probabilities that a program holds at once", 32, 1 << 15},
                 {"warps", "warps of one program"}};
  spec.typical = {{"B", 64}, {"V", 128256}};
  spec.small = {{"B", 5}, {"V", 300}};
  spec.check = [](const Invocation &call) { checkTokens(call, call.extent("V")); };
  spec.reference = renormalizeReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const Config all = rowsInParts(call.extent("V"), target);
    return Config{{"row_block", all.at("row_block")}, {"warps", all.at("row_warps")}};
  };
  spec.spaces = {
      {.axes = {{"row_block", {128, 512, 1024, 4096, 8192}}, {"warps", {1, 2, 4, 8, 16, 32}}},
       .where = tilesWithin({"row_block"}, 4, 32, {{"row_block", 128, "V"}})}};
  spec.apply = [](Use &use) {
    auto config = use.config_as<RenormalizeConfig>();
    const bool k = config.top_ks || use.call.options.integer("top_k") > 0,
               p = config.top_ps || use.call.options.number("top_p") < 1;
    config.cutsTwice = k && p && use.call.options.choice("order") != "joint";
    use(renormalize, use.extent("B"), config);
  };
  return spec;
}
