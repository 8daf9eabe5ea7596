// Stops at compilers that cannot read these headers, before they print pages of errors.
#pragma once

#if defined(__clang__)
#if __clang_major__ < 17
#define SECTILE_COMPILER_TOO_OLD
#endif
#elif defined(__GNUC__) && __GNUC__ < 12
#define SECTILE_COMPILER_TOO_OLD
#endif

#ifdef SECTILE_COMPILER_TOO_OLD
#error "Sectile needs g++ 12, clang 17 or a later version of either"
// Compilers go on after #error. None goes on after a file that it cannot find.
#include <sectile/this compiler is too old>
#endif
