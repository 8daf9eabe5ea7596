// A sealed program does not tune.
// expect: a sealed program has no compiler, so it cannot tune: link Sectile::sectile
#define SECTILE_SEALED
#include <sectile/autotune.h>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 64;
};
SECTILE_CONFIG(Block, size)

sc::Kernel ones{"ones", [](sc::Ptr<float> x, const Block &block) {
                  sc::store(x + sc::arange(0, block.size), 1.0f);
                }};

sc::Autotuner tuned{ones, sc::space(&Block::size, {64, 128})};
