// What the elements of a tensor map are besides their width. The copy engine computes with them
// only where it combines memory with a block.
#ifndef SECTILE_RUNTIME_TENSORNUMBER_H
#define SECTILE_RUNTIME_TENSORNUMBER_H

#include <cstdint>

namespace sectile {

/// Copies and stores move bits.
enum class TensorNumber : uint8_t { Bits, Half, BFloat, Float };

} // namespace sectile

#endif
