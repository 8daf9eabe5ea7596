// What things cost, for choosing among layouts and among ways between them: the one table.
#pragma once

/// In cycles of a warp, roughly: an instruction in the integer pipe is the unit. Only ratios
/// matter, and they are alike on all targets.
namespace sectile::cycles {

inline constexpr double instruction = 1;
inline constexpr double move = 0.25; ///< registers are renamed; what remains is pressure
inline constexpr double matrixInstruction = 16;

// Shared memory, whose pipe shuffles use too.
inline constexpr double wavefront = 2;
inline constexpr double conflict = 2; ///< on top of the wavefront: it stalls others
inline constexpr double shuffle = 5;  ///< one that others wait for
inline constexpr double sharedLatency = 30;
inline constexpr double barrier = 20;
/// Threads write, meet, and read what others wrote.
inline constexpr double meeting = sharedLatency + barrier;
/// Times as much, for scratch that takes the room of what loops fetch ahead.
inline constexpr double crowding = 8;

// Global memory, which all warps of the chip share: a sector weighs more than the cycle in which it
// is asked for.
inline constexpr double access = 4;
inline constexpr double sector = 4;
inline constexpr double exposedLatency = 200; ///< of an iteration that waits for its loads

} // namespace sectile::cycles
