// embedding: rows of a table by their numbers, and the table's gradient:
//   y[i] = table[indices[i]], dtable[r] = sum of dy[i] over all i with indices[i] = r,
// as torch.nn.functional.embedding. An index that is no row is an assertion's error.
#include "kernels/Sample.h"
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/elementwise/Family.h"
#include "kernels/elementwise/SortPlaces.h"
#include <algorithm>
#include <limits>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct EmbeddingConfig {
  int rows = 1, block = 1024, warps = 4;
};
SECTILE_CONFIG(EmbeddingConfig, rows, block, warps)

template <class T, class Number>
Kernel embedding{"embedding", [](View<const T, 2> table, View<const Number, 1> indices,
                                 View<T, 2> y, const EmbeddingConfig &config) {
                   const int m = config.rows, n = config.block;
                   auto row = program_id(0), block = program_id(1);
                   auto inside = row * m + arange(0, m) < indices.extent(0);
                   auto number = cast<std::int64_t>(indices.tile(m).load(row));
                   device_assert(!inside || (number >= 0 && number < table.extent(0)),
                                 "an index is a row of the table");
                   number = where(inside, number, -1);
                   y.tile(m, n).store(row, block, table.tile(m, n).gather(number, block));
                 }};

// Reports what is no row, once for all the launches that then take it for one.
template <class Number>
Kernel embeddingCheck{
    "embedding_check", [](View<const Number, 1> indices, Int rows, const EmbeddingConfig &config) {
      const int n = config.block;
      auto inside = program_id(0) * n + arange(0, n) < indices.extent(0);
      auto number = indices.tile(n).load(program_id(0));
      device_assert(!inside || (number >= 0 && number < rows), "an index is a row of the table");
    }};

// One row of the table: the sum of dy at the places of its index, in their order.
template <class T>
Kernel embeddingBackward{"embedding_backward",
                         [](Ptr<const std::int32_t> places, Ptr<const std::int32_t> starts,
                            View<const T, 2> dy, View<T, 2> dtable, const EmbeddingConfig &config) {
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
                           dtable.at(row).tile(n).store(block, sum(total, 0));
                         }};

ArgumentSpec indices() {
  return {.name = "indices",
          .axes = {"..."},
          .dtypes = {DType::int64, DType::int32},
          .sample =
              [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
                const auto rows =
                    static_cast<std::uint64_t>(std::max<std::int64_t>(call.extent("V"), 1));
                fillDrawn(array, [&] { return static_cast<double>(random() % rows); });
              },
          .doc = "numbers of rows; another is an error (an assertion's)"};
}

void check(const Invocation &call) {
  if (call.extent("V") == 0 && elementCount(call.leading) != 0)
    throw InputError(call.kernel->name + ": there are indices, but the table has no rows");
}

void fill(KernelSpec &spec, const char *part, std::int64_t rows) {
  spec.check = check;
  spec.config = {{"rows", "rows of one step"},
                 {"block", "columns of one program"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"V", 32768}, {"H", 1024}, {"...", 4096}};
  spec.small = {{"V", 50}, {"H", 40}, {"...", 70}};
  spec.defaults = [rows](const Invocation &call, const std::string &) {
    const auto block = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(call.extent("H")))), 32,
        1024);
    return Config{{"rows", rows}, {"block", block}, {"warps", block <= 256 ? 2 : 4}};
  };
  spec.spaces = {
      {.part = part,
       .axes = {{"rows", {1, 2, 4, 8, 16}},
                {"block", {32, 64, 128, 256, 512, 1024, 2048}},
                {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t tile = config.at("rows") * config.at("block"),
                            threads = config.at("warps") * warpSize(target);
         return tile >= threads && tile <= 32 * threads &&
                (config.at("block") == 32 || config.at("block") < 2 * call.extent("H"));
       }}};
}

EmbeddingConfig configOf(const Use &use) {
  return {use.field("rows"), use.field("block"), use.field("warps")};
}

} // namespace

KernelSpec sectile::embeddingSpec() {
  KernelSpec spec;
  spec.name = "embedding";
  spec.summary = "y = table[indices]: rows of a table by their numbers";
  spec.arguments = {
      {.name = "table",
       .axes = {"V", "H"},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16},
       .doc = "V rows"},
      indices(),
      {.name = "y",
       .output = true,
       .axes = {"...", "H"},
       .like = "table",
       .doc = "a row for each index"},
  };
  fill(spec, "", 2);
  spec.reference = [](const Invocation &, std::span<const HostArray> in, Arithmetic arithmetic) {
    return std::vector{embeddingReference(in[0], in[1], arithmetic)};
  };
  spec.apply = [](Use &use) {
    const EmbeddingConfig chosen = configOf(use);
    const std::int64_t width = use.call.extent("H");
    for_dtype<float, half, bfloat16>(use.call.dtype("table"), [&]<class T>(T) {
      for_dtype<std::int64_t, std::int32_t>(use.call.dtype("indices"), [&]<class Number>(Number) {
        const auto numbers = use.elements<Number>("indices");
        use(embedding<T, Number>,
            Grid(width ? ceilDiv(numbers.extent(0), chosen.rows) : 0, ceilDiv(width, chosen.block)),
            use.tensor<T, 2>("table"), numbers, use.rows<T>("y"), chosen);
      });
    });
  };
  return spec;
}

KernelSpec sectile::embeddingBackwardSpec() {
  KernelSpec spec;
  spec.name = "embedding_backward";
  spec.summary = "gradient of the table of y = table[indices]: the sum of dy at each row's places";
  spec.arguments = {
      {.name = "table",
       .axes = {"V", "H"},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16},
       .doc = "as in embedding; only its shape counts"},
      indices(),
      {.name = "dy", .axes = {"...", "H"}, .like = "table", .doc = "gradient of y"},
      {.name = "dtable",
       .output = true,
       .axes = {"V", "H"},
       .like = "table",
       .doc = "gradient of the table; 0 in rows that no index names"},
  };
  fill(spec, "embedding_backward", 4);
  spec.factor = 3;
  spec.check = [](const Invocation &call) {
    check(call);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
    if (elementCount(call.leading) > most || call.extent("V") > most)
      throw InputError("embedding_backward: there are more than " + std::to_string(most) +
                       " indices or rows");
  };
  spec.reference = [](const Invocation &, std::span<const HostArray> in, Arithmetic arithmetic) {
    return std::vector{embeddingBackwardReference(in[0], in[1], in[2], arithmetic)};
  };
  spec.apply = [](Use &use) {
    const EmbeddingConfig chosen = configOf(use);
    const std::int64_t rows = use.call.extent("V"), width = use.call.extent("H");
    for_dtype<std::int64_t, std::int32_t>(use.call.dtype("indices"), [&]<class Number>(Number) {
      const auto numbers = use.elements<Number>("indices");
      const EmbeddingConfig wide{.block = 1024};
      use(embeddingCheck<Number>, ceilDiv(numbers.extent(0), wide.block), numbers, rows, wide);
      const SortedPlaces sorted = sortPlaces(use, numbers, rows);
      for_dtype<float, half, bfloat16>(use.call.dtype("dy"), [&]<class T>(T) {
        use(embeddingBackward<T>, Grid(width ? rows : 0, ceilDiv(width, chosen.block)),
            sorted.places, sorted.starts, use.rows<T>("dy"), use.tensor<T, 2>("dtable"), chosen);
      });
    });
  };
  return spec;
}
