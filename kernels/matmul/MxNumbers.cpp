// The kernel that decodes numbers of the microscaling formats.
#include "kernels/matmul/MxNumbers.h"
#include <sectile/sectile.h>

using namespace sectile;

namespace {

struct MxDecodeConfig {
  int rows = 32, columns = 128, warps = 4;
};

template <class T> struct MxDecodeArguments {
  View<const T, 3> codes;
  View<const std::uint8_t, 3> scales;
  View<bfloat16, 3> numbers;
};

// s_ee_m where f16 has its sign, the lower bits of its exponent and the highest of its mantissa,
// whose exponents begin 14 lower.
Tile<float> fromE2m1(const Tile<std::uint8_t> &codes) {
  const auto wide = cast<std::int16_t>(codes);
  return cast<float>(bitcast<half>(((wide & 8) << 12) | ((wide & 7) << 9))) * 16384.0f;
}

// The code is f32's exponent. 0 is 2^-127, which f32 has as a subnormal number, and 255 NaN.
Tile<float> fromE8m0(const Tile<std::uint8_t> &codes) {
  const auto wide = cast<std::int32_t>(codes);
  return bitcast<float>(where(wide == 0, 1 << 22, where(wide == 255, 0x7fc00000, wide << 23)));
}

template <class T>
Kernel mxDecode{
    "mx_decode", [](const MxDecodeArguments<T> &a, const MxDecodeConfig &config) {
      const int rows = config.rows, columns = config.columns;
      const Int i = program_id(0), j = program_id(1), matrix = program_id(2);
      const auto codes = a.codes.at(matrix).tile(rows, columns / mxPacking<T>).load(i, j);
      const auto factors = fromE8m0(a.scales.at(matrix).tile(rows, columns / mxBlock).load(i, j));
      Tile<float> numbers;
      if constexpr (mxPacking<T> == 2)
        numbers = fromE2m1(interleave(codes & 15, codes >> 4));
      else
        numbers = cast<float>(codes);
      numbers =
          numbers * reshape(broadcast_to(expand(factors, 2), rows, columns / mxBlock, mxBlock),
                            rows, columns);
      a.numbers.at(matrix).tile(rows, columns).store(i, j, cast<bfloat16>(numbers));
    }};

} // namespace

template <class T>
Tensor<bfloat16, 3> sectile::decodedMx(Use &use, const Tensor<T, 3> &codes,
                                       const Tensor<std::uint8_t, 3> &scales) {
  constexpr std::int64_t line = 64; // numbers of 128 bytes, at which rows begin
  const std::int64_t matrices = codes.extent(0), rows = codes.extent(1),
                     depth = codes.extent(2) * mxPacking<T>, room = ceilDiv(depth, line) * line;
  const auto numbers = withAxes(use.workspace<bfloat16, 3>({matrices, rows, room}),
                                {matrices, rows, depth}, {rows * room, room, 1});
  const MxDecodeConfig config;
  use(mxDecode<T>, Grid(ceilDiv(rows, config.rows), ceilDiv(depth, config.columns), matrices),
      config, {{"codes", codes}, {"scales", scales}, {"numbers", numbers}});
  return numbers;
}

template Tensor<bfloat16, 3> sectile::decodedMx(Use &, const Tensor<std::uint8_t, 3> &,
                                                const Tensor<std::uint8_t, 3> &);
template Tensor<bfloat16, 3> sectile::decodedMx(Use &, const Tensor<float8_e4m3, 3> &,
                                                const Tensor<std::uint8_t, 3> &);
template Tensor<bfloat16, 3> sectile::decodedMx(Use &, const Tensor<float8_e5m2, 3> &,
                                                const Tensor<std::uint8_t, 3> &);
