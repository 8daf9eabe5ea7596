// What every kernel's counters are to be, of kernels at either end of a language model's step and
// in its mixtures of experts: losses, samplers, routes and products by expert.
#pragma once
#include "CountersExpectation.h"

namespace sectile::test {

inline const std::vector<Expectation> &tokens() {
  static const std::vector<Expectation> all{
      // Three products of one chunk; logits twice, then their gradient in two products; rows of x
      // and w for the targets' own logits.
      {{"linear_cross_entropy"},
       {{"N", 64}, {"V", 256}, {"H", 128}},
       [](const Plan &p) {
         const double logits = p.extent("N") * p.extent("V") * 2;
         return Reads{{"x", {2 * p.bytes("x"), 16 * p.bytes("x")}},
                      {"w", {2 * p.bytes("w"), 16 * p.bytes("w")}},
                      {"targets", few(p.byWarps(p.rows() + 3 * p.extent("N")))},
                      {"scratch", {4 * logits, 24 * logits}}};
       },
       {},
       contents({{"targets", numbers(64, [](int i) { return i; })}})},
      // Scores of experts chosen are looked up, as threads hold two of each row's neighbours.
      {{"moe_route"},
       {{"T", 64}, {"E", 128}},
       allOnce,
       {},
       nullptr,
       "f16",
       {},
       [](const Plan &) { return 0.0; },
       [](const Plan &p) { return p.extent("T") * (p.extent("E") * 4 / 128 + 1); }},
      // A row's choices by each warp that has some of its experts.
      {{"moe_route_backward"},
       {{"T", 64}, {"E", 128}},
       [](const Plan &p) {
         const double most = p.extent("T") * p.field("warps") * sector;
         return Reads{
             {"logits", p.bytes("logits")}, {"experts", few(most)}, {"dweights", few(most)}};
       }},
      // Choices are counted, and put in their places.
      {{"moe_permute"},
       {{"T", 256}, {"k", 4}},
       [](const Plan &p) { return Reads{{"experts", 2 * p.bytes("experts")}}; },
       {},
       nullptr,
       "i32",
       {},
       // Places go wherever their experts begin.
       [](const Plan &p) { return p.extent("T") * p.extent("k") * 3 * sector; },
       // An expert and a place, of each choice, are looked up.
       [](const Plan &p) { return p.extent("T") * p.extent("k"); }},
      // A token's places by each warp that has some of its columns.
      {{"moe_combine"},
       {{"T", 64}, {"C", 2}, {"M", 128}, {"N", 256}},
       [](const Plan &p) {
         const double each = p.tiles("T", "rows") * p.tiles("N", "block") * p.field("warps") *
                             p.extent("C") * p.field("rows");
         return Reads{{"parts", p.bytes("parts")}, {"inverse", few(each * sector)}};
       },
       {},
       contents({{"inverse", numbers(128, [](int i) { return i; })}}),
       "f16",
       {},
       [](const Plan &p) { return p.extent("T") * p.extent("C") * 2 * sector; }},
      // Logits once, and again the group of 256 that is drawn. What each group of a row came to is
      // read by each warp of the row's program.
      {{"sample"},
       {{"B", 8}, {"V", 4096}},
       [](const Plan &p) {
         return Reads{{"logits", p.bytes("logits") * (1 + 256.0 / 4096)},
                      {"scratch", few(p.extent("B") * p.field("row_warps") * 5 * sector)}};
       }},
      // Once for the sum, for each of 16 digits, for those that equal the last, and to divide.
      {{"renormalize"},
       {{"B", 8}, {"V", 4096}},
       [](const Plan &p) { return Reads{{"probs", 19 * p.bytes("probs")}}; },
       {},
       nullptr,
       "f32"},
      // Of the target the row after the drafts that are kept, and their own numbers.
      {{"speculative_verify"},
       {{"B", 8}, {"N", 3}, {"V", 4096}},
       [](const Plan &p) {
         const double programs = p.extent("B") * (p.tiles("V", "block") * p.field("warps") + 1),
                      numbers = programs * 3 * sector;
         return Reads{
             {"target_probs", {p.bytes("target_probs") / 4, p.bytes("target_probs") / 4 + numbers}},
             {"draft_tokens", few(2 * numbers)},
             {"u", few(numbers)},
             {"scratch", few(p.extent("B") * 5 * sector)}};
       },
       {},
       nullptr,
       "",
       {},
       // Probabilities of drafts lie apart.
       [](const Plan &p) {
         return p.extent("B") * (p.tiles("V", "block") * p.field("warps") + 1) * 3 * sector;
       }},
      // Places, and which choice has each row, by each warp that has some of its columns.
      {{"moe_combine_backward"},
       {{"T", 64}, {"C", 2}, {"M", 128}, {"N", 256}},
       [](const Plan &p) {
         const double warps = p.tiles("N", "block") * p.field("warps");
         return Reads{{"inverse", few(p.extent("T") * p.extent("C") * p.field("warps") * sector)},
                      {"dy", {p.bytes("dy"), p.extent("M") * p.extent("N") * 2}},
                      {"scratch", few(p.extent("M") * warps * sector)}};
       },
       {},
       contents({{"inverse", numbers(128, [](int i) { return i; })}}),
       "f16",
       {},
       [](const Plan &p) { return p.extent("M") * 2 * p.field("warps") * sector; }},
      // Tiles of rows, gathered one by one, with the columns of both halves.
      {{"moe_up"},
       {{"T", 64}, {"M", 256}, {"N", 256}, {"K", 128}, {"G", 2}},
       [](const Plan &p) {
         const double columns = p.tiles("N", "n"), tiles = p.tiles("M", "m"),
                      programs = (tiles + p.extent("G")) * columns;
         return Reads{
             {"x", p.extent("M") * p.extent("K") * 2 * columns},
             {"w", p.bytes("w") / p.extent("G") * tiles},
             {"counts", few(p.byWarps(programs))},
             {"rows",
              {p.bytes("rows") * columns, p.bytes("rows") * columns * p.field("warps") * 4}}};
       },
       {},
       contents({{"counts", {128, 128}}, {"rows", numbers(256, [](int i) { return i % 64; })}})},
      {{"moe_down"},
       {{"T", 128}, {"C", 2}, {"M", 256}, {"N", 128}, {"K", 128}, {"G", 2}},
       [](const Plan &p) {
         const double columns = p.tiles("N", "n"), tiles = p.tiles("M", "m"),
                      sums = std::ceil(p.extent("T") / p.field("sum_rows")) *
                             std::ceil(p.extent("N") / p.field("sum_block")),
                      each = sums * p.field("sum_warps") * p.extent("C") * p.field("sum_rows");
         return Reads{{"h", p.bytes("h") * columns},
                      {"w", p.bytes("w") / p.extent("G") * tiles},
                      {"counts", few(p.byWarps((tiles + p.extent("G")) * columns))},
                      {"inverse", few(each * sector)},
                      {"weights", few(each * sector)},
                      {"scratch", p.extent("M") * p.extent("N") * 2}};
       },
       {},
       contents({{"counts", {128, 128}}, {"inverse", numbers(256, [](int i) { return i; })}}),
       "f16",
       {},
       [](const Plan &p) { return p.extent("T") * p.extent("C") * 2 * sector; }},
  };
  return all;
}

} // namespace sectile::test
