// Bundles: compiled kernels in one piece of memory, from a file or from the program itself. A
// launch finds its code by what it is (kernel, signature, target, options, configuration), and
// among variants by what they may assume of its arguments.
#ifndef SECTILE_RUNTIME_BUNDLE_H
#define SECTILE_RUNTIME_BUNDLE_H

#include "runtime/CodeChain.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::runtime {

/// What code is for, beside what it assumes of the arguments.
struct BundleKey {
  std::string kernel;
  std::vector<detail::ArgSpec> signature;
  std::string target; ///< "sm_90a", "gfx942", or "virtual:sm_90a", code for hosts
  unsigned warps = 0, stages = 0, longAxis = 0;
  bool debug = false, checked = false;
  unsigned maxRegisters = 0, minPrograms = 0;
  std::vector<uint64_t> configuration; ///< the words of its fields
  std::string described = {};          ///< the same for people, "m=128 n=64"; not part of the key
};

/// How well code for one target suits a chip: 0: not at all; more: better. A CUDA driver compiles
/// the PTX of older chips for its own, unless it is for one chip alone.
int suitability(std::string_view code, std::string_view wanted);
inline constexpr int suitsExactly = 1000;

/// How bundles name the target of a virtual device.
std::string virtualTarget(const std::string &chip);

/// A bundle's identity for people: 32 hexadecimal digits.
std::string bundleIdentityText(const uint64_t (&words)[2]);

/// The target of code for this device, as keys have it.
std::string bundleTargetOf(const DeviceImpl &device);

/// The key of a launch's own code. What SECTILE_LOOP_PLANS says is no part of it.
BundleKey bundleKeyOf(const CodeRequest &request);

/// An open bundle. Its bytes are checked when it is opened, and every length before it is used.
class Bundle : public CodeSource {
public:
  /// Reads a file. Throws InputError for one that cannot be read, that somebody else could have
  /// written, or that is no whole bundle of this format.
  static std::shared_ptr<const Bundle> open(const std::string &path);
  /// Takes bytes that stay where they are. Messages call the bundle `name`.
  static std::shared_ptr<const Bundle> of(std::string_view bytes, std::string name);

  std::shared_ptr<const Artifact> find(const CodeRequest &request) const override;
  std::string whyNone(const CodeRequest &request) const override;
  std::span<const BundledChoice> choices() const override { return choices_; }
  const Bundle *asBundle() const override { return this; }

  const std::string &name() const { return name_; }
  /// Of the contents: 32 hexadecimal digits.
  const std::string &identity() const { return identity_; }
  std::string_view about() const { return about_; }
  /// One variant: what it is for, and its code.
  struct Content {
    BundleKey key;
    Artifact artifact;
    uint64_t codeBytes; ///< of the code, also where it was left out
  };
  /// All variants, in the file's order. Throws InputError for code that cannot be decompressed.
  std::vector<Content> contents(bool withCode = true) const;
  size_t countKernels() const { return kernels.size(); }
  size_t countVariants() const;
  size_t countCodes() const { return codes.size(); }
  /// Whether any of them is compressed.
  bool isCompressed() const;

private:
  struct Variant {
    std::string_view target;
    unsigned warps, stages, longAxis, maxRegisters, minPrograms;
    bool debug, checked;
    std::vector<uint64_t> configuration;
    std::string_view described;
    Artifact artifact; // without its code
    uint32_t code;
  };
  struct Kernel {
    std::string_view name;
    std::vector<detail::ArgSpec> signature;
    std::vector<Variant> variants;
  };

  struct Code {
    std::string_view bytes;
    uint64_t size; // without compression
    bool isCompressed;
  };

  explicit Bundle(std::string name) : name_(std::move(name)) {}
  void read(std::string_view bytes);
  void readKernels(std::string_view section);
  void readCodes(std::string_view section);
  void readVariants(std::string_view section);
  void readChoices(std::string_view section);
  [[noreturn]] void refuse(const std::string &why) const;
  static bool isMachineCodeOf(const Variant &variant, const Variant &ptx);
  std::string codeOf(const Variant &variant) const; // throws InputError
  const Kernel *kernelFor(const BundleKey &key) const;

  std::string name_, identity_;
  std::string file; // the bytes, where they are not the program's
  std::string_view about_;
  std::vector<Kernel> kernels;
  std::vector<Code> codes;
  std::vector<BundledChoice> choices_;
};

} // namespace sectile::runtime

#endif
