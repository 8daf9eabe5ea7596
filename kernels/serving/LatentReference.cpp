// Rows of a cache of latents on the host, as keys and values.
#include "kernels/registry/Registry.h"
#include "kernels/serving/References.h"
#include <cstring>
#include <sectile/error.h>

using namespace sectile;

LatentRows sectile::latentRows(const Invocation &call, const HostArray &cache, std::int64_t latent,
                               const HostArray &scale, Arithmetic arithmetic) {
  const std::int64_t blocks = cache.shape[0], page = cache.shape[1], stored = cache.shape[2],
                     width = call.extent("D"), rest = width - latent;
  const auto rows = static_cast<std::size_t>(blocks * page);
  std::vector<double> keys;
  if (cache.dtype == DType::uint8) {
    const auto bytes = cache.as<std::uint8_t>();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint8_t *at = bytes.data() + row * static_cast<std::size_t>(stored),
                         *groups = at + latent, *others = groups + latent / 128 * 4;
      for (std::int64_t d = 0; d < latent; ++d) {
        float8_e4m3 code;
        float of;
        std::memcpy(&code, at + d, 1);
        std::memcpy(&of, groups + d / 128 * 4, 4);
        keys.push_back(double(static_cast<float>(code)) * double(of));
      }
      for (std::int64_t d = 0; d < rest; ++d) {
        bfloat16 number;
        std::memcpy(&number, others + 2 * d, 2);
        keys.push_back(double(static_cast<float>(number)));
      }
    }
  } else {
    keys = cache.to_double();
  }
  if (!scale.data.empty())
    for (double &key : keys)
      key *= double(scale.as<float>()[0]);
  // Matrix units take rows of the queries' dtype.
  const DType dtype = arithmetic == Arithmetic::exact ? DType::float64
                      : cache.dtype == DType::uint8   ? call.dtype("q")
                                                      : DType::float32;
  std::vector<double> values;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(row) * width;
    values.insert(values.end(), first, first + latent);
  }
  return {HostArray(dtype, {blocks, 1, page, width}, keys),
          HostArray(dtype, {blocks, 1, page, latent}, values)};
}

AttentionResult sectile::chosenRowsReference(const HostArray &q, const LatentRows &rows,
                                             const HostArray &indices, const HostArray *lengths,
                                             const PagedSettings &settings, Arithmetic arithmetic) {
  const std::int64_t tokens = indices.shape[0], most = indices.shape[1];
  // Each row is a page of its own, and what is left out leaves no gap.
  const auto asPages = [](HostArray of) {
    of.shape = {of.shape[0] * of.shape[2], 1, 1, of.shape[3]};
    return of;
  };
  HostArray tables(DType::int32, {tokens, most}), counts(DType::int32, {tokens});
  const auto from = indices.as<std::int32_t>();
  const auto to = tables.as<std::int32_t>(), count = counts.as<std::int32_t>();
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto token = static_cast<std::size_t>(t);
    const std::int64_t all = lengths ? lengths->as<std::int32_t>()[token] : most;
    for (std::int64_t j = 0; j < all; ++j)
      if (const std::int32_t slot = from[static_cast<std::size_t>(t * most + j)]; slot >= 0)
        to[static_cast<std::size_t>(t * most + count[token]++)] = slot;
  }
  return pagedReference(q, asPages(rows.keys), asPages(rows.values), counts, tables, settings,
                        arithmetic);
}

void sectile::checkIndices(const Invocation &call, const HostArray &indices,
                           const HostArray *lengths) {
  const std::int64_t tokens = call.extent("S"), most = call.extent("topk"),
                     slots = call.extent("blocks") * call.extent("page");
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t count =
        lengths ? lengths->as<std::int32_t>()[static_cast<std::size_t>(t)] : most;
    if (count < 0 || count > most)
      refuse(call, "lengths[", t, "] is ", count, ", but must be from 0 to ", most);
    for (std::int64_t j = 0; j < count; ++j)
      if (const std::int64_t slot =
              indices.as<std::int32_t>()[static_cast<std::size_t>(t * most + j)];
          slot >= slots)
        refuse(call, "indices[", t, ", ", j, "] is ", slot, ", but the cache has ", slots, " rows");
  }
}
