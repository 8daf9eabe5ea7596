// Philox 4x32 on the host (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), for
// references of kernels that draw random numbers.
#pragma once
#include <array>
#include <cstdint>

namespace sectile {

inline std::array<std::uint32_t, 4>
philoxWords(std::uint64_t key, std::array<std::uint32_t, 4> counter, int rounds = 10) {
  auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0],
                        b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<std::uint32_t>(a)};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return counter;
}

} // namespace sectile
