// Compilers before g++ 12 and clang 17 stop at one line, and read nothing after it.
// expect: Sectile needs g\+\+ 12, clang 17 or a later version of either
#ifdef __clang__
#undef __clang_major__
#define __clang_major__ 14
#else
#undef __GNUC__
#define __GNUC__ 11
#endif
#include <sectile/sectile.h>
