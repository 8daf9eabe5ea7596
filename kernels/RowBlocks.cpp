// Shapes of programs over rows.
#include "kernels/norm/Rows.h"
#include "kernels/InputError.h"
#include <algorithm>
#include <bit>

using namespace sectile;

namespace {

std::int64_t powerOfTwo(std::int64_t least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
}

} // namespace

void sectile::configureRows(KernelSpec &spec, const std::string &axis, std::int64_t longest) {
  spec.config = {{"block", "elements of a row held at once"},
                 {"rows", "rows held at once"},
                 {"warps", "warps of one program"}};
  // Short rows share a program, so that there are 16 bytes and more for each thread.
  spec.defaults = [axis, longest](const Invocation &call, const std::string &target) {
    const std::int64_t most = call.tensors[0].dtype == DType::float32 ? longest : 2 * longest;
    const std::int64_t block = std::clamp<std::int64_t>(powerOfTwo(call.extent(axis)), 32, most);
    const std::int64_t rows = std::clamp<std::int64_t>(powerOfTwo(elementCount(call.leading)), 1,
                                                       std::max<std::int64_t>(1024 / block, 1));
    const std::int64_t warps =
        std::clamp<std::int64_t>(rows * block / (16 * warpSize(target)), 1, 16);
    return Config{{"block", block}, {"rows", rows}, {"warps", warps}};
  };
  spec.spaces = {
      {.axes = {{"block", {32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}},
                {"rows", {1, 2, 4, 8, 16}},
                {"warps", {1, 2, 4, 8, 16}}},
       .where = [axis](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t length = call.extent(axis), block = config.at("block"),
                            rows = config.at("rows"), warps = config.at("warps"),
                            tile = block * rows, threads = warps * warpSize(target);
         // Four elements and more for a thread; no rows or columns that there are not.
         return (tile >= 4 * threads || (warps == 1 && tile >= threads)) && tile <= 64 * threads &&
                (block >= length || block >= 1024) && (block == 32 || block < 2 * length) &&
                (rows == 1 || rows < 2 * elementCount(call.leading));
       }}};
}

OptionSpec sectile::epsOption(const char *initial, const char *doc) {
  return {.name = "eps",
          .kind = OptionSpec::number,
          .initial = initial,
          .samples = {"0.01"},
          .doc = doc};
}

void sectile::checkEps(const Invocation &call) {
  if (call.options.number("eps") < 0)
    throw InputError(call.kernel->name + ": option 'eps' cannot be negative");
}
