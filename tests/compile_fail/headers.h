// The headers that sources here include, for clang to read once for all of them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sectile/autotune.h>
#include <sectile/cta.h>
#include <sectile/flash.h>
#include <sectile/gemm.h>
#include <sectile/sectile.h>
#include <sectile/signature.h>
