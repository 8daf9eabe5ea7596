// The version that the library was built as.
#include <sectile/version.h>

const char *sectile::version() { return SECTILE_VERSION_STRING; }
