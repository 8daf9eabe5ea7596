// The default tiles of attention and its gradients, as tables: a row for each kind of call. The
// first row that fits a call holds. A test compiles each.
#pragma once
#include "kernels/registry/Registry.h"
#include <limits>
#include <span>

namespace sectile::tiles {

// What multiplies blocks of elements of 16 bits, or of f32 where the name has 32.
enum class Units { warpgroups, wmma, matrices, matrices32, threads, threads32 };

// What takes registers or shared memory. lambda: scores that a caller of flash modifies, whatever
// that takes.
enum Option : unsigned { bias = 1, mask = 2, softcap = 4, dropout = 8, lambda = 16 };

// Of a call whose scores a lambda modifies.
void markLambda(Invocation &call);

enum class Schedule {
  plain,
  overlapped, // products run beside arithmetic, and a warp of its own copies
  persistent, // so they do, and programs do one block after another
  prompt,     // persistent, and no product is put off to the next step
  fused       // so they do, and programs for dk and dv add up dq, too
};

constexpr auto any = std::numeric_limits<std::int64_t>::max();

// What a row asks of a call, beside units and width.
struct Conditions {
  unsigned with = 0, without = 0; // options: all of these, none of those
  std::int64_t queries = 0;       // at least
  double keys = 0, keysUpTo = std::numeric_limits<double>::infinity();
  double spread = 0; // so many keys at most, and the call is spread
  bool single = false, packed = false, unordered = false;
};

// m queries and n keys: the forward pass and dq hold the queries, dk and dv the keys.
struct Tile {
  int m, n, warps;
  Schedule schedule = Schedule::plain;
  int stages = 2;
};

struct Row {
  Units units;
  std::int64_t width; // of D and Dv, at most
  Conditions when;
  Tile tile;
};

enum class Pass { forward, queryGradients, keyGradients };

std::span<const Row> rows(Pass pass);
const Row &rowFor(Pass pass, const Invocation &call, const std::string &target);
// The fields prefix + "m", "n", "warps", "stages" and "overlap".
Config fields(const Row &row, const std::string &prefix = "");

} // namespace sectile::tiles
