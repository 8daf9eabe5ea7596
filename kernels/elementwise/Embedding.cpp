// embedding: rows of a table by their numbers, and the table's gradient:
//   y[i] = scale table[indices[i]], dtable[r] = scale sum of dy[i] over all i with indices[i] = r,
// without a scale as torch.nn.functional.embedding. An index that is no row is an assertion's
// error.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/elementwise/Family.h"
#include "kernels/elementwise/SortPlaces.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <limits>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct EmbeddingConfig {
  int rows = 1, block = 1024, warps = 4;
  bool scaled = false; // by another number than 1
};

template <class T, class Number> struct EmbeddingArguments {
  View<const T, 2> table;
  View<const Number, 1> indices;
  View<T, 2> y;
  Float scale;
};

template <class T, class Number>
Kernel embedding{"embedding",
                 [](const EmbeddingArguments<T, Number> &a, const EmbeddingConfig &config) {
                   const auto &[table, indices, y, scale] = a;
                   const int m = config.rows, n = config.block;
                   auto row = program_id(0), block = program_id(1);
                   auto inside = row * m + arange(0, m) < indices.extent(0);
                   auto number = cast<std::int64_t>(indices.tile(m).load(row));
                   device_assert(!inside || (number >= 0 && number < table.extent(0)),
                                 "an index is a row of the table");
                   number = where(inside, number, -1);
                   auto values = table.tile(m, n).gather(number, block);
                   if (config.scaled)
                     y.tile(m, n).store(row, block, cast<float>(values) * scale);
                   else
                     y.tile(m, n).store(row, block, values);
                 }};

template <class Number> struct EmbeddingCheckArguments {
  View<const Number, 1> indices;
  Int V;
};

// Reports what is no row, once for all the launches that then take it for one.
template <class Number>
Kernel embeddingCheck{
    "embedding_check", [](const EmbeddingCheckArguments<Number> &a, const EmbeddingConfig &config) {
      const auto &[indices, rows] = a;
      const int n = config.block;
      auto inside = program_id(0) * n + arange(0, n) < indices.extent(0);
      auto number = indices.tile(n).load(program_id(0));
      device_assert(!inside || (number >= 0 && number < rows), "an index is a row of the table");
    }};

template <class T> struct EmbeddingBackwardArguments {
  Ptr<const std::int32_t> places, starts;
  View<const T, 2> dy;
  View<T, 2> dtable;
  Float scale;
};

// One row of the table: the sum of dy at the places of its index, in their order.
template <class T>
Kernel embeddingBackward{"embedding_backward",
                         [](const EmbeddingBackwardArguments<T> &a, const EmbeddingConfig &config) {
                           const auto &[places, starts, dy, dtable, scale] = a;
                           const int m = config.rows, n = config.block;
                           auto row = program_id(0), block = program_id(1);
                           auto begin = cast<Index>(load(starts + row)),
                                end = cast<Index>(load(starts + row + 1));
                           auto total = zeros<float>(m, n);
                           for (auto first : range(begin, end, m)) {
                             auto at = first + arange(0, m);
                             auto place = load(places + at, at < end, -1);
                             total += cast<float>(dy.tile(m, n).gather(place, block));
                           }
                           auto result = sum(total, 0);
                           if (config.scaled)
                             result *= scale;
                           dtable.at(row).tile(n).store(block, result);
                         }};

void sampleIndices(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const auto rows = static_cast<std::uint64_t>(std::max<std::int64_t>(call.extent("V"), 1));
  fillDrawn(array, [&] { return static_cast<double>(random() % rows); });
}

const ArgumentRow indices{"indices: [...] i64|i32",
                          "numbers of rows; another is an error (an assertion's)",
                          {.sample = sampleIndices}};

void check(const Invocation &call) {
  if (call.extent("V") == 0 && elementCount(call.leading) != 0)
    refuse(call, "there are indices, but the table has no rows");
}

bool isScaled(const Invocation &call) { return call.options.number("scale") != 1; }

void fill(KernelSpec &spec, const char *part, std::int64_t rows) {
  spec.add_options({{"scale: number = 1 e.g. 25.25", "a factor of y; sqrt(H) in Gemma"}});
  spec.check = check;
  spec.config = {{"rows", "rows of one step"},
                 {"block", "columns of one program"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"V", 32768}, {"H", 1024}, {"...", 4096}};
  spec.small = {{"V", 50}, {"H", 40}, {"...", 70}};
  spec.defaults = [rows](const Invocation &call, const std::string &) {
    const auto block = std::clamp<std::int64_t>(powerAtLeast(call.extent("H")), 32, 1024);
    return Config{{"rows", rows}, {"block", block}, {"warps", block <= 256 ? 2 : 4}};
  };
  spec.spaces = {{.part = part,
                  .axes = {{"rows", {1, 2, 4, 8, 16}},
                           {"block", {32, 64, 128, 256, 512, 1024, 2048}},
                           {"warps", {1, 2, 4, 8}}},
                  .where = tilesWithin({"rows", "block"}, 1, 32, {{"block", 32, "H"}})}};
}

} // namespace

KernelSpec sectile::embeddingSpec() {
  KernelSpec spec;
  spec.name = "embedding";
  spec.summary = "y = scale * table[indices]: rows of a table by their numbers";
  spec.add_arguments({{"table: [V, H] f32|f16|bf16", "V rows"},
                      indices,
                      {"-> y: [..., H] like table", "a row for each index"}});
  fill(spec, "", 2);
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    return std::vector{embeddingReference(in[0], in[1], call.options.number("scale"), arithmetic)};
  };
  spec.apply = [](Use &use) {
    const auto config = use.config_as(EmbeddingConfig{.scaled = isScaled(use.call)});
    const std::int64_t width = use.extent("H");
    const Grid grid(width ? ceilDiv(use.extent("..."), config.rows) : 0,
                    ceilDiv(width, config.block));
    for_dtype<float, half, bfloat16>(use.call.dtype("table"), [&]<class T>(T) {
      for_dtype<std::int64_t, std::int32_t>(use.call.dtype("indices"), [&]<class Number>(Number) {
        use(embedding<T, Number>, grid, config);
      });
    });
  };
  return spec;
}

KernelSpec sectile::embeddingBackwardSpec() {
  KernelSpec spec;
  spec.name = "embedding_backward";
  spec.summary =
      "gradient of the table of y = scale * table[indices]: the sum of dy at each row's places";
  spec.add_arguments(
      {{"table: [V, H] f32|f16|bf16", "as in embedding; only its shape counts"},
       indices,
       {"dy: [..., H] like table", "gradient of y"},
       {"-> dtable: [V, H] like table", "gradient of the table; 0 in rows that no index names"}});
  fill(spec, "embedding_backward", 4);
  spec.factor = 3;
  spec.check = [](const Invocation &call) {
    check(call);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
    if (elementCount(call.leading) > most || call.extent("V") > most)
      throw InputError("embedding_backward: there are more than " + std::to_string(most) +
                       " indices or rows");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    return std::vector{
        embeddingBackwardReference(in[0], in[1], in[2], call.options.number("scale"), arithmetic)};
  };
  spec.apply = [](Use &use) {
    const auto config = use.config_as(EmbeddingConfig{.scaled = isScaled(use.call)});
    const std::int64_t rows = use.extent("V"), width = use.extent("H");
    SortedPlaces sorted{noTensor<std::int32_t, 1>(), noTensor<std::int32_t, 1>()};
    for_dtype<std::int64_t, std::int32_t>(use.call.dtype("indices"), [&]<class Number>(Number) {
      const EmbeddingConfig wide{.block = 1024};
      use(embeddingCheck<Number>, ceilDiv(use.extent("..."), wide.block), wide);
      sorted = sortPlaces(use, use.elements<Number>("indices"), rows);
    });
    for_dtype<float, half, bfloat16>(use.call.dtype("dy"), [&]<class T>(T) {
      use(embeddingBackward<T>, Grid(width ? rows : 0, ceilDiv(width, config.block)), config,
          {{"places", sorted.places}, {"starts", sorted.starts}});
    });
  };
  return spec;
}
