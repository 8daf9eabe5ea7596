// Bundles: code that was compiled beforehand, for programs without the compiler or as a seed for
// those that have it. SECTILE_BUNDLE says in a source what such a program launches; SECTILE_BUILD=
// FILE has a program with the compiler write what it launched.
#pragma once
#include <cstddef>
#include <map>
#include <sectile/kernel.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

// Adds a bundle, a file, to this process until it ends: a launch whose code it has takes that and
// compiles nothing. Bundles are asked in the order in which they were added. Throws InputError for
// a file that cannot be read, that others could have written, or that is no bundle of this version.
void load_bundle(const std::string &path);
// The same for a bundle in memory, which must stay as it is. Messages call it `name`.
void load_bundle(std::span<const std::byte> bytes, const std::string &name);

// Calls of a kernel by its name: one of the library, or one that was registered.
struct BundledCalls {
  // Of all inputs that have a choice, or of some by name ("f16,b=i8"); the usual ones if empty.
  std::string dtype = {};
  // Extents by axis: a call for each combination. Axes that are not named have typical extents.
  std::map<std::string, std::vector<std::int64_t>> shapes = {};
  std::map<std::string, std::string> options = {};
  std::vector<std::string> with = {}; // optional inputs that there are
};

#ifndef SECTILE_SEALED
class BundleBuilder; // in the library

// What a bundle is to have, for each of the targets that it is built for. Of every kernel and
// configuration it gets code for the arguments that are named, for aligned arguments of any
// extents, and for any arguments at all: a launch takes the one that assumes most.
class BundleContents {
public:
  explicit BundleContents(BundleBuilder &builder) : builder_(builder) {}

  // A kernel's launches with this configuration.
  template <class F>
  void add(const Kernel<F> &kernel, const typename Kernel<F>::Config &config,
           LaunchOptions options = {}) {
    addAny(kernel.bind_any(config, options));
  }
  template <class F> void add(const Kernel<F> &kernel, LaunchOptions options = {}) {
    if constexpr (Kernel<F>::has_config)
      addAny(kernel.bind_any({}, options));
    else
      addAny(kernel.bind_any(options));
  }
  // Launches like this one, too, whose pointers may be null: bundle.add(kernel.bind(grid, x, n)).
  void add(const detail::BoundLaunch &launch);
  // Calls of a kernel by its name, with the configurations that it chooses for them. Throws
  // InputError for what it does not take.
  void add(std::string_view kernel, const BundledCalls &calls = {});

private:
  void addAny(const detail::BoundLaunch &launch);

  BundleBuilder &builder_;
};
#endif

namespace detail {

// The bundle that a library was built with by CMake's sectile_add_bundle: in it, or a file.
struct LinkedBundle {
  const char *name;           // of the CMake target
  const unsigned char *bytes; // the bundle, or of a file its identity, 16 bytes
  std::size_t size;           // of the bundle; of a file 0
  const char *file;           // beside the program or library that has `bytes`, or an absolute path
};
// Has launches ask it; it is opened when the first does. Returns true.
bool addLinkedBundle(const LinkedBundle &bundle);

#ifndef SECTILE_SEALED
// Keeps what SECTILE_BUNDLE says for `sectile build`. Returns true.
bool declareBundle(void (*add)(BundleContents &));
#endif

} // namespace detail
} // namespace sectile

// SECTILE_BUNDLE(bundle) { bundle.add(kernel, Config{...}); bundle.add("matmul"); }
// In a source of sectile_add_bundle, after its kernels: what the bundle gets. `bundle` is a
// BundleContents. In a sealed program it is nothing.
#define SECTILE_BUNDLE(bundle) SECTILE_DETAIL_BUNDLE(bundle, __LINE__)
#define SECTILE_DETAIL_BUNDLE(bundle, line) SECTILE_DETAIL_BUNDLE_AT(bundle, line)
#ifdef SECTILE_SEALED
#define SECTILE_DETAIL_BUNDLE_AT(bundle, line)                                                     \
  template <class SectileBundleContents>                                                           \
  [[maybe_unused]] static void sectileBundle##line([[maybe_unused]] SectileBundleContents &bundle)
#else
#define SECTILE_DETAIL_BUNDLE_AT(bundle, line)                                                     \
  static void sectileBundle##line(::sectile::BundleContents &bundle);                              \
  [[maybe_unused]] static const bool sectileBundleIsDeclared##line =                               \
      ::sectile::detail::declareBundle(&sectileBundle##line);                                      \
  static void sectileBundle##line([[maybe_unused]] ::sectile::BundleContents &bundle)
#endif
