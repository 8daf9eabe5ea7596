// Bundles: code that was compiled beforehand, for programs without the compiler or as a seed for
// those that have it. SECTILE_BUILD=FILE has a program with the compiler write one.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace sectile {

// Adds a bundle, a file, to this process until it ends: a launch whose code it has takes that and
// compiles nothing. Bundles are asked in the order in which they were added. Throws InputError for
// a file that cannot be read, that others could have written, or that is no bundle of this version.
void load_bundle(const std::string &path);
// The same for a bundle in memory, which must stay as it is. Messages call it `name`.
void load_bundle(std::span<const std::byte> bytes, const std::string &name);

} // namespace sectile
