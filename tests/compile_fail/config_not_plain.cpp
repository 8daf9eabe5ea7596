// A configuration is made field by field.
// expect: a kernel's configuration is a plain struct with defaults
#include <sectile/config.h>
class Block {
public:
  explicit Block(int size) : size(size) {}
  int size;
};
SECTILE_CONFIG(Block, size)
