// What a sealed program has not. SECTILE_SEALED says that a program or library launches code that
// was compiled beforehand: its kernels' lambdas become no code, so it needs neither the language
// nor the compiler. The CMake targets Sectile::runtime and Sectile::kernels define it. All sources
// of one program or library must agree on it.
#pragma once

// Before a declaration: a sealed program that uses it does not compile.
#ifdef SECTILE_SEALED
#define SECTILE_NEEDS_COMPILER                                                                     \
  __attribute__((                                                                                  \
      unavailable("a sealed program has no compiler: link Sectile::sectile in place of "           \
                  "Sectile::runtime and Sectile::kernels")))
#else
#define SECTILE_NEEDS_COMPILER
#endif
