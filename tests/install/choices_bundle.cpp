// What that program's bundle has.
#include <sectile/bundle.h>

SECTILE_BUNDLE(bundle) {
  bundle.add("matmul", {.dtype = "f16", .shapes = {{"M", {64}}, {"N", {64}}, {"K", {96}}}});
}
