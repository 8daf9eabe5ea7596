// Which Sectile this program was compiled against, and which one it runs with.
#include <cstdio>
#include <sectile/version.h>

int main() {
  std::printf("compiled with %s, runs with %s\n", SECTILE_VERSION_STRING, sectile::version());
}
