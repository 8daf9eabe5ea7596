// There is one configuration, and it comes last.
// expect: a kernel's configuration is one struct, and its last parameter
#include <sectile/language.h>
#include <sectile/signature.h>

struct Block {
  int size = 64;
};
SECTILE_CONFIG(Block, size)
auto kernel = [](const Block &, sectile::Int, const Block &) {};
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
