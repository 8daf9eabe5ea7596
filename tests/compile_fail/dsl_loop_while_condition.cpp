// A loop of the kernel ends by a traced condition.
// expect: the condition of sc::loop_while is a lambda that returns a traced bool
#include <sectile/language.h>

void kernel(sectile::Int n) {
  sectile::loop_while([&] { return n; }, [&] { n -= 1; });
}
