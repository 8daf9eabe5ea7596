// The version that the library was built as.
#include <sectile/version.h>

const char *sectile::version() { return SECTILE_VERSION_STRING; }

#define SECTILE_HEADERS_OF(major, minor) headers_of_##major##_##minor
#define SECTILE_HEADERS(major, minor) SECTILE_HEADERS_OF(major, minor)
void sectile::detail::SECTILE_HEADERS(SECTILE_VERSION_MAJOR, SECTILE_VERSION_MINOR)() {}
