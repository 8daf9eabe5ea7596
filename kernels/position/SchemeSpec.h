// What the attentions of this family have in common on the host: arguments, options, rules,
// configurations.
#pragma once
#include "kernels/Use.h"

namespace sectile {

namespace scheme {

// q [B, Hq, Sq, D], k and v [B, Hkv, Sk, D], the queries and the keys as many as are named.
std::vector<ArgumentSpec> inputs(const std::vector<std::string> &queries,
                                 const std::vector<std::string> &keys);
ArgumentSpec queryLike(const std::string &name, const std::string &doc, bool output);
ArgumentSpec keyLike(const std::string &name, const std::string &doc, bool output);
ArgumentSpec logarithms(bool output);
// causal, window_left and window_right if `windows`, scale, layout.
std::vector<OptionSpec> options(bool windows);
void check(const Invocation &call);
double scale(const Invocation &call);
// Extents, configuration fields, defaults and search space. `products` is how many numbers a key or
// a query has, in units of D: the second set of a scheme counts too.
void configure(KernelSpec &spec, bool backward, int products);
// Defaults of rows wider than 64 where warpgroups multiply and a head has 1024 queries or more:
// those of the narrowest width in `tiles` that rows do not exceed. Fewer queries get one warpgroup
// and 32 keys.
void inWarpgroups(KernelSpec &spec, const std::map<std::int64_t, Config> &tiles);

inline int paddedWidth(std::int64_t width) { return static_cast<int>(ceilDiv(width, 16) * 16); }

} // namespace scheme
} // namespace sectile
