// What the recurrent kernels read, for the test of every kernel's counters.
#pragma once
#include "CountersExpectation.h"
#include <cmath>

namespace sectile::test {

/// The states at the chunks' ends, which take as much as inputs of f16 and else are f32.
inline double states(const Plan &p) {
  return p.extent("B") * p.extent("H") * p.tiles("T", "chunk") * p.extent("Dk") * p.extent("Dv") *
         (p.call.tensors[0].dtype == DType::float16 ? 2 : 4);
}

/// What each warp reads of the units that states of f16 are in: one number for each block of them.
inline double units(const Plan &p, double columns) {
  return p.byWarps(p.extent("B") * p.extent("H") * p.tiles("T", "chunk") * columns);
}

struct Cell {
  double gates, slots, memory;
  /// What x gives to the gates of all steps, and the reserve.
  double inputs(const Plan &p) const {
    return p.extent("T") * p.extent("B") * gates * p.extent("H") * 4;
  }
};
inline Cell cellOf(const Plan &p) {
  const std::string &name = p.call.kernel->name;
  return name.starts_with("rnn")   ? Cell{1, 1, 0}
         : name.starts_with("gru") ? Cell{3, 4, 0}
                                   : Cell{4, 5, 1};
}

// What kda and rwkv7 leave between launches: the states read `rows` arrays of a chunk's keys, the
// outputs one and `scores` of it, which two warps may need.
inline Bytes ofChannels(const Plan &p, double rows, double scores) {
  const double columns = p.tiles("V", "dv"), blocks = p.tiles("V", "columns"),
               chunks = p.extent("Hv") * p.tiles("T", "chunk"), chunk = p.field("chunk"),
               k = p.extent("K"), whole = chunks * columns * k * 4;
  const double squares = chunks * chunk * 2 * scores * chunk * blocks,
               all = chunks * chunk * 2 * k * (rows * columns + blocks) + squares + p.bytes("v") +
                     chunks * k * p.extent("V") * 4;
  return {all + whole, all + squares + whole * p.field("warps")};
}

// What their gradients read: `rows` arrays for each block of a state's columns, with rwkv7 one and
// two of scores for each block of v; the inverses, the gradients of scores for each block of
// channels, those of rows twice, what steps add and its gradient, and the states before and after.
inline Bytes ofChannelGradients(const Plan &p, double rows, double squares,
                                double rowsOfGradients) {
  const bool isRwkv = p.call.kernel->name == "rwkv7_backward";
  const double columns = p.tiles("V", "dv"), blocks = isRwkv ? p.tiles("V", "columns") : 0,
               chunks = p.extent("Hv") * p.tiles("T", "chunk"), chunk = p.field("chunk"),
               k = p.extent("K"), v = p.extent("V"), whole = 2 * chunks * columns * k * 4,
               narrow = k * (rows * columns + blocks) + chunk * (columns + 2 * blocks) + 2 * v,
               wide = (1 + squares * std::ceil(k * chunk / 256 / p.field("chunk_warps"))) * chunk +
                      2 * rowsOfGradients * k,
               all = chunks * (2 * chunk * narrow + 4 * chunk * wide + 8 * k * v);
  // The channels of a block are few for eight warps of 64: two may read the same.
  const double again = chunks * 4 * chunk * rowsOfGradients * k;
  return {all + whole, all + again + whole * p.field("warps")};
}

inline const std::vector<Expectation> &recurrences() {
  const std::map<std::string, std::int64_t> network{
      {"T", 4}, {"B", 32}, {"I", 64}, {"H", 64}, {"...", 1}};
  static const std::vector<Expectation> all{
      {{"linear_recurrence"},
       {{"B", 1}, {"H", 2}, {"T", 256}, {"Dk", 64}, {"Dv", 64}},
       [](const Plan &p) {
         const double columns = p.tiles("Dv", "dv");
         return Reads{{"k", 2 * p.bytes("k") * columns},
                      {"q", p.bytes("q") * columns},
                      {"v", 2 * p.bytes("v")},
                      {"scratch", Bytes(states(p), states(p) + units(p, columns))}};
       }},
      {{"linear_recurrence_backward"},
       {{"B", 1}, {"H", 2}, {"T", 256}, {"Dk", 64}, {"Dv", 64}},
       [](const Plan &p) {
         const double columns = p.tiles("Dv", "dv");
         return Reads{{"k", p.bytes("k") * (columns + 1)},
                      {"q", p.bytes("q") * (columns + 1)},
                      {"v", 2 * p.bytes("v")},
                      {"do", 3 * p.bytes("do")},
                      {"scratch", Bytes(3 * states(p), 3 * states(p) + 3 * units(p, columns))}};
       }},
      // A chunk's keys are read once for its triangle and to be multiplied by its inverse, then for
      // each block of the states' columns, and with the outputs. What the steps add is read there
      // too; without a state it waits where outputs go. Numbers by step lie apart by heads.
      {.kernels = {"delta_rule"},
       .extents = {{"B", 1}, {"T", 256}, {"Hk", 2}, {"Hv", 2}, {"K", 64}, {"V", 64}},
       .reads =
           [](const Plan &p) {
             const double columns = p.tiles("V", "dv"), blocks = p.tiles("V", "columns"),
                          chunks = p.extent("Hv") * p.tiles("T", "chunk"),
                          read = p.bytes("k") * columns + p.bytes("v") +
                                 chunks * p.extent("K") * p.extent("V") * 4,
                          numbers = chunks * (p.field("chunk") * 4 + sector) * (columns + 1) *
                                    p.field("warps");
             return Reads{{"q", p.bytes("q") * blocks},
                          {"k", p.bytes("k") * (1 + columns + blocks)},
                          {"v", p.bytes("v")},
                          {"o", p.bytes("v")},
                          {"scratch", {read, read + numbers}}};
           },
       .apart = [](const Plan &p) { return p.extent("T") * p.extent("Hv") * 4; }},
      // Inputs are read for the chunks only, once. The states read two arrays of rows for each
      // block of their columns, the outputs one and scores. Warps store 8 columns of a product
      // each, which fill half of a sector, and 16 channels are a sector of a row.
      {.kernels = {"kda"},
       .extents = {{"B", 1}, {"T", 256}, {"Hk", 2}, {"Hv", 2}, {"K", 64}, {"V", 64}},
       .reads =
           [](const Plan &p) {
             return Reads{{"q", p.bytes("q")},
                          {"k", p.bytes("k")},
                          {"v", p.bytes("v")},
                          {"o", {p.bytes("v"), 2 * p.bytes("v")}},
                          {"scratch", ofChannels(p, 2, 1)}};
           },
       .apart = [](const Plan &p) { return 3 * p.bytes("k"); }},
      {.kernels = {"rwkv7"},
       .extents = {{"B", 1}, {"T", 256}, {"Hk", 2}, {"Hv", 2}, {"K", 64}, {"V", 64}},
       .reads =
           [](const Plan &p) {
             return Reads{{"q", p.bytes("q")},
                          {"k", p.bytes("k")},
                          {"a", p.bytes("a")},
                          {"b", p.bytes("b")},
                          {"v", 3 * p.bytes("v")},
                          {"o", p.bytes("v")},
                          {"scratch", ofChannels(p, 3, 2)}};
           },
       .apart = [](const Plan &p) { return 9 * p.bytes("k"); }},
      // States by the copy that comes before, and by the programs that have their rows; a step's
      // key and query by each of these, and by each of the heads that share them.
      {{"delta_step"},
       {{"B", 2}, {"T", 1}, {"Hk", 2}, {"Hv", 4}, {"K", 128}, {"V", 128}, {"P", 2}},
       [](const Plan &p) {
         const double programs = p.tiles("V", "dv"), group = p.extent("Hv") / p.extent("Hk");
         return Reads{{"q", {p.bytes("q"), p.bytes("q") * programs * group * p.field("warps")}},
                      {"k", {p.bytes("k"), p.bytes("k") * programs * group * p.field("warps")}},
                      {"v", few(p.byWarps(p.extent("B") * p.extent("Hv") * programs))},
                      {"state", p.bytes("state")},
                      {"state_out", p.bytes("state_out")}};
       }},
      {{"rwkv7_step"},
       {{"B", 2}, {"T", 1}, {"Hk", 2}, {"Hv", 4}, {"K", 128}, {"V", 128}, {"P", 2}},
       [](const Plan &p) {
         const double programs = p.tiles("V", "dv"), group = p.extent("Hv") / p.extent("Hk"),
                      most = programs * group * p.field("warps");
         return Reads{{"q", {p.bytes("q"), p.bytes("q") * most}},
                      {"k", {p.bytes("k"), p.bytes("k") * most}},
                      {"v", few(p.byWarps(p.extent("B") * p.extent("Hv") * programs))},
                      {"a", {p.bytes("a"), p.bytes("a") * most}},
                      {"b", {p.bytes("b"), p.bytes("b") * most}},
                      {"state", p.bytes("state")},
                      {"state_out", p.bytes("state_out")}};
       }},
      // The forward pass up to its states, then the same backward, and all gradients. Of a chunk's
      // products eight warps hold 8 columns each, which fill half of a sector.
      {.kernels = {"delta_rule_backward"},
       .extents = {{"B", 1}, {"T", 256}, {"Hk", 2}, {"Hv", 2}, {"K", 64}, {"V", 64}},
       .reads =
           [](const Plan &p) {
             const double columns = p.tiles("V", "dv"),
                          chunks = p.extent("Hv") * p.tiles("T", "chunk"),
                          read = chunks * (8 * p.extent("K") * p.extent("V") +
                                           4 * p.field("chunk") * p.field("chunk")) +
                                 2 * columns * p.bytes("k") + 3 * p.bytes("v"),
                          numbers = chunks * (p.field("chunk") * 4 + sector) * (2 * columns + 2) *
                                    p.field("warps");
             return Reads{{"q", p.bytes("q") * (2 + columns)},
                          {"k", p.bytes("k") * (3 + 2 * columns)},
                          {"v", p.bytes("v")},
                          {"dv", p.bytes("v")},
                          {"do", 3 * p.bytes("do")},
                          {"scratch", {read, read + numbers}}};
           },
       .apart =
           [](const Plan &p) {
             return p.extent("T") * p.extent("Hv") * 12 + p.bytes("k") + 2 * p.bytes("v");
           }},
      // Inputs as above, once more by columns or by channels; v by columns only with beta or where
      // it is written as it is.
      {.kernels = {"kda_backward"},
       .extents = {{"B", 1}, {"T", 256}, {"Hk", 2}, {"Hv", 2}, {"K", 64}, {"V", 64}},
       .reads =
           [](const Plan &p) {
             return Reads{{"q", 2 * p.bytes("q")},   {"k", 2 * p.bytes("k")},
                          {"v", p.bytes("v")},       {"dv", p.bytes("v")},
                          {"do", 2 * p.bytes("do")}, {"scratch", ofChannelGradients(p, 5, 2, 3)}};
           },
       .apart = [](const Plan &p) { return 2 * p.bytes("k") + p.bytes("v"); }},
      {.kernels = {"rwkv7_backward"},
       .extents = {{"B", 1}, {"T", 256}, {"Hk", 2}, {"Hv", 2}, {"K", 64}, {"V", 64}},
       .reads =
           [](const Plan &p) {
             return Reads{{"q", 2 * p.bytes("q")},   {"k", 2 * p.bytes("k")},
                          {"a", 2 * p.bytes("a")},   {"b", 2 * p.bytes("b")},
                          {"v", 3 * p.bytes("v")},   {"dv", p.bytes("v")},
                          {"do", 2 * p.bytes("do")}, {"scratch", ofChannelGradients(p, 6, 4, 4)}};
           },
       .apart =
           [](const Plan &p) {
             return p.bytes("k") + 2 * p.bytes("v") +
                    3 * p.extent("T") * p.extent("Hv") * p.field("chunk") * 2;
           }},
      // The gates of all steps at once, in tiles of 64, left in the reserve; each step then reads
      // the state, w_hh in each program and what x gives.
      {{"rnn", "gru", "lstm"},
       network,
       [](const Plan &p) {
         const Cell cell = cellOf(p);
         const double state = p.extent("B") * p.extent("H"), programs = p.tiles("B", "b"),
                      steps = p.extent("T");
         return Reads{
             {"x", p.bytes("x") * cell.gates},
             {"w_ih", p.bytes("w_ih") * steps * p.extent("B") / 64},
             {"w_hh", steps * programs * p.bytes("w_hh")},
             {"reserve", cell.inputs(p)},
             {"scratch", steps * state * ((cell.gates == 3 ? 2 : 1) * 2 + cell.memory * 4)}};
       }},
      // From the last step on; then the products of all steps for dx, dw_ih and dw_hh.
      {{"rnn_backward", "gru_backward", "lstm_backward"},
       network,
       [](const Plan &p) {
         const Cell cell = cellOf(p);
         const double state = p.extent("B") * p.extent("H"), programs = p.tiles("B", "b"),
                      steps = p.extent("T"), sums = cell.inputs(p) / 2;
         return Reads{{"dy", steps * state * 2},
                      {"reserve", state * 4 * (steps * cell.slots + (steps - 1) * cell.memory)},
                      {"w_hh", (steps - 1) * programs * p.bytes("w_hh")},
                      {"w_ih", p.bytes("w_ih") * steps * p.extent("B") / 64},
                      {"x", p.bytes("x") * cell.gates},
                      {"y", (steps - 1) * state * 2 * (cell.gates + (cell.gates == 3 ? 1 : 0))},
                      {"scratch", (steps - 1) * sums / steps +
                                      steps * state * 4 * (1 + cell.memory) + 3 * sums}};
       }},
  };
  return all;
}

} // namespace sectile::test
