// Options that leave tokens out, and configurations of kernels over rows in parts.
#include "kernels/sampling/Cuts.h"
#include "kernels/sampling/Race.h"

using namespace sectile;

std::vector<OptionRow> sectile::cutOptions() {
  return {
      {"top_k: integer = 0 from 0 to 2147483647 e.g. 1, 20",
       "so many of the most probable stay; 0: all"},
      {"top_p: number = 1 from 0 e.g. 0.8, 0",
       "tokens stay where those ahead of them sum to less than this; 1: all; the first stays in "
       "any case"},
      {"order: k_first|joint = k_first", "top_p is of the probabilities of the top_k, or of all"}};
}

Config sectile::rowsInParts(std::int64_t tokens, const std::string &target) {
  const auto blockOf = [&](std::int64_t most) {
    return powerAtLeast(std::clamp<std::int64_t>(tokens, 128, most));
  };
  const auto warpsOf = [&](std::int64_t block, std::int64_t each, std::int64_t most) {
    return std::clamp<std::int64_t>(block / (each * warpSize(target)), 1, most);
  };
  const std::int64_t block = blockOf(2048), rowBlock = blockOf(8192);
  return {{"block", block},
          {"warps", warpsOf(block, 8, 8)},
          {"row_block", rowBlock},
          {"row_warps", warpsOf(rowBlock, 16, 1024 / warpSize(target))}};
}

const std::vector<ConfigSpec> &sectile::partFields() {
  static const std::vector<ConfigSpec> all{
      {"block", "tokens of a part of a row", 32, 1 << 15},
      {"warps", "warps of a part's program"},
      {"row_block", "tokens that a row's program holds at once", 32, 1 << 15},
      {"row_warps", "warps of a row's program"}};
  return all;
}

std::vector<SearchSpace> sectile::partSpaces(const char *parts, const char *rows, bool inGroups) {
  const auto fits = [](const Invocation &call, const std::string &target, std::int64_t block,
                       std::int64_t warps) {
    const std::int64_t threads = warps * warpSize(target), tokens = call.extent("V");
    return block >= 4 * threads && block <= 32 * threads && threads <= 1024 &&
           (block <= 128 || block < 2 * tokens) && ceilDiv(tokens, block) <= mostParts;
  };
  return {
      {.part = parts,
       .axes = {{"block", {128, 512, 1024, 2048, 4096}}, {"warps", {1, 2, 4, 8}}},
       .where =
           [fits, inGroups](const Invocation &call, const std::string &target,
                            const Config &config) {
             const std::int64_t tokens = call.extent("V"), block = config.at("block");
             return fits(call, target, block, config.at("warps")) &&
                    (!inGroups ||
                     block >= std::min<std::int64_t>(groupOf(tokens), powerAtLeast(tokens)));
           }},
      {.part = rows,
       .axes = {{"row_block", {128, 512, 1024, 4096, 8192, 16384}},
                {"row_warps", {1, 2, 4, 8, 16, 32}}},
       .where = [fits](const Invocation &call, const std::string &target, const Config &config) {
         return fits(call, target, config.at("row_block"), config.at("row_warps"));
       }}};
}

int sectile::slotsFor(std::int64_t tokens, std::int64_t block) {
  return static_cast<int>(
      powerAtLeast(std::clamp<std::int64_t>(ceilDiv(tokens, block), 32, mostParts)));
}
