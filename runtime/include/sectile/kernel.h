// Kernel: a lambda over tiles that can be launched. Its first launch for a kind of arguments traces
// and compiles it; later ones look the result up, without a lock or an allocation.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <sectile/argument.h>
#include <sectile/config.h>
#include <sectile/sealed.h>
#include <sectile/stream.h>
#include <vector>

namespace sectile {

struct CompileOptions;

namespace runtime {
class LoadedKernel;
class LaunchWords;
struct CodeAccess;
struct LaunchAccess;
} // namespace runtime

// How many programs run, along up to three axes. An empty grid runs none.
struct Grid {
  unsigned x = 1, y = 1, z = 1;

  constexpr Grid() = default;
  template <std::integral X, std::integral Y = int, std::integral Z = int>
  constexpr Grid(X x, Y y = 1, Z z = 1) : x(count(x)), y(count(y)), z(count(z)) {}

private:
  static constexpr unsigned count(std::integral auto value) {
    if (!std::in_range<unsigned>(value))
      detail::throwDoesNotFit(std::to_string(value), "an extent of a grid");
    return static_cast<unsigned>(value);
  }
};

// How a program is laid out on the device. Zero: what the configuration's field of the same name
// says, else the kernel.
struct LaunchOptions {
  unsigned warps = 0;  // of one program; a power of two
  unsigned stages = 0; // depth of software pipelines
  // For the assembler; 0 leaves it the choice. The registers of one thread at most, and how many
  // programs at least have to fit on a multiprocessor at once, which also limits the registers.
  // Both may make code spill; a remark says when it does.
  unsigned max_registers = 0, min_programs = 0;
  // Whether assertions and prints are compiled in, and whether integer arithmetic that feeds
  // addresses is checked for overflow and promises are verified. Without a value: as the
  // environment says (SECTILE_DEBUG=0, SECTILE_CHECKED=1).
  std::optional<bool> debug = std::nullopt, checked = std::nullopt;
  // The launch may start before the kernel ahead of it in the stream is done. It waits for that
  // first, or where the kernel calls wait_dependencies(). For chips that can (sm_90 on); on others
  // it starts afterwards.
  bool dependent = false;
};

namespace detail {

inline constexpr unsigned defaultWarps = 4, defaultStages = 3;         // of kernels that do not say
inline constexpr std::size_t maxArguments = 142, maxConfigFields = 48; // of one kernel, flattened

// A launch without types.
struct PackedLaunch {
  const std::uint64_t *words; // the flattened arguments
  const Owner *owners;        // one per ArgSpec
  const void *config;
  const std::uint64_t *configWords;
  std::size_t configCount;
  std::string (*describeConfig)(const void *config);
  LaunchOptions options;
  std::size_t configBytes = 0;
};

class KernelBase;

// A launch that is kept instead of done: all that its arguments and its configuration were.
struct BoundLaunch {
  const KernelBase *kernel = nullptr;
  Grid grid;
  std::vector<std::uint64_t> words;
  std::vector<Owner> owners; // one per ArgSpec
  std::shared_ptr<const void> config;
  std::vector<std::uint64_t> configWords;
  std::string (*describeConfig)(const void *config) = nullptr;
  LaunchOptions options;

  PackedLaunch packed() const {
    return {words.data(),       owners.data(),  config.get(), configWords.data(),
            configWords.size(), describeConfig, options};
  }
};

struct KernelState; // in the library

// What all kernels share.
class KernelBase {
public:
  KernelBase(const KernelDesc &desc, LaunchOptions options) : desc_(desc), options_(options) {}
  KernelBase(const KernelBase &) = delete;
  KernelBase &operator=(const KernelBase &) = delete;
  ~KernelBase();

  std::string_view name() const { return desc_.name; }
  std::span<const ArgSpec> arguments() const { return desc_.args; }
  const LaunchOptions &options() const { return options_; }

  // For a caller that launches now or keeps it for later: one or the other of what packed() gives.
  void launchPacked(const Stream &stream, const Grid &grid, const PackedLaunch &packed) const {
    launch(stream, grid, packed);
  }
  BoundLaunch keepPacked(const Grid &grid, const PackedLaunch &packed) const;

protected:
  void launch(const Stream &stream, const Grid &grid, const PackedLaunch &packed) const;
  std::string emit(std::string_view target, std::string_view form,
                   const PackedLaunch &packed) const;
  std::string codeHash(const Device &device, const PackedLaunch &packed) const;
  std::string cacheKey(const Device &device, const PackedLaunch &packed) const;

private:
  friend struct runtime::CodeAccess;
  friend struct runtime::LaunchAccess;
  KernelState &state() const;
  // Loaded code for such a launch. Throws LaunchError where it would have to be loaded and the
  // stream, if there is one, is being captured.
  const runtime::LoadedKernel &prepare(runtime::DeviceImpl &device, const Grid &grid,
                                       const PackedLaunch &packed, void *stream) const;
  void countVersion(const runtime::LaunchWords &key, const runtime::DeviceImpl &device,
                    const PackedLaunch &packed, const CompileOptions &options) const;
  void prepareIn(const Stream &stream, const Grid &grid, const PackedLaunch &packed) const;
  void launchNow(const Stream &stream, const Grid &grid, const PackedLaunch &packed) const;

  KernelDesc desc_;
  LaunchOptions options_;
  mutable std::atomic<KernelState *> state_ = nullptr;
};

// Stands for the parameter with this number, from 0, where a call of a kernel has no argument for
// it. Nothing where the call has enough.
template <std::size_t Number, class Parameter> struct MissingArgument {};
template <class Signature, std::size_t Given> constexpr auto firstMissing() {
  if constexpr (Given < Signature::args_count)
    return MissingArgument<Given, typename Signature::template Arg<Given>>();
}

template <class Signature, class Indices> class TypedKernel;

template <class Signature, std::size_t... I>
class TypedKernel<Signature, std::index_sequence<I...>> : public KernelBase {
public:
  using Config = typename Signature::Config; // NoConfig if there is none
  static constexpr bool has_config = Signature::has_config;
  static constexpr std::size_t parameters = Signature::args_count; // without the configuration
  template <std::size_t J> using Parameter = typename Signature::template Arg<J>;
  template <std::size_t J> using Arg = Argument<Parameter<J>>;
  static_assert(!Signature::has_config || KernelConfig<Config>,
                "a kernel's configuration is a plain struct of numbers, bools and enumerations; a "
                "plain struct of Ptr, View, Int, Tile<T> and such structs is a parameter");

  // Runs the kernel in the stream once for every place in the grid, and does not wait.
  void launch(const Stream &stream, Grid grid, const Arg<I> &...arguments,
              const Config &config = {}, LaunchOptions options = {}) const
    requires(Signature::has_config)
  {
    pack(config, options, arguments...,
         [&](const PackedLaunch &packed) { KernelBase::launch(stream, grid, packed); });
  }
  void launch(const Stream &stream, Grid grid, const Arg<I> &...arguments,
              LaunchOptions options = {}) const
    requires(!Signature::has_config)
  {
    pack({}, options, arguments...,
         [&](const PackedLaunch &packed) { KernelBase::launch(stream, grid, packed); });
  }

  // A launch without an argument for each parameter.
  template <class... A, class Missing = decltype(firstMissing<Signature, sizeof...(A)>())>
    requires(sizeof...(A) < Signature::args_count)
  __attribute__((
      unavailable("this call has too few arguments: MissingArgument<number from 0, type> "
                  "is the first parameter of the kernel without one"))) //
  void launch(const Stream &, Grid, const A &...) const {}
  // Other calls that launch nothing.
  template <class... A>
    requires(sizeof...(A) > Signature::args_count + has_config + 1)
  __attribute__((unavailable("this call has more arguments than the kernel has parameters"))) //
  void launch(const Stream &, Grid, const A &...) const {}
  template <class G, class... A>
    requires(!std::convertible_to<const G &, Grid>)
  __attribute__((unavailable("the grid comes after the stream: how many programs run, as in "
                             "kernel.launch(stream, programs, arguments...)"))) //
  void launch(const Stream &, const G &, const A &...) const {}
  template <class... A>
  __attribute__((unavailable("a launch goes to a stream, as in kernel.launch(device.stream(), "
                             "programs, arguments...)"))) //
  void launch(const Device &, const A &...) const {}

  // The kernel as a launch with these arguments has it compiled, for a target ("sm_90a") and in a
  // form ("tile", "cta", "llvm", "ptx", "cubin", "amdgcn", "hsaco"). Needs no device; addresses may
  // be null.
  SECTILE_NEEDS_COMPILER
  std::string emit(std::string_view target, std::string_view form, const Arg<I> &...arguments,
                   const Config &config = {}, LaunchOptions options = {}) const
    requires(Signature::has_config)
  {
    return pack(config, options, arguments...,
                [&](const PackedLaunch &packed) { return KernelBase::emit(target, form, packed); });
  }
  SECTILE_NEEDS_COMPILER
  std::string emit(std::string_view target, std::string_view form, const Arg<I> &...arguments,
                   LaunchOptions options = {}) const
    requires(!Signature::has_config)
  {
    return pack({}, options, arguments...,
                [&](const PackedLaunch &packed) { return KernelBase::emit(target, form, packed); });
  }

  template <class... A, class Missing = decltype(firstMissing<Signature, sizeof...(A)>())>
    requires(sizeof...(A) < Signature::args_count)
  __attribute__((
      unavailable("this call has too few arguments: MissingArgument<number from 0, type> "
                  "is the first parameter of the kernel without one"))) //
  std::string emit(std::string_view, std::string_view, const A &...) const {
    return {};
  }

  // The hash of the kernel's IR as a launch with these arguments has it, without source lines: what
  // measurements of it are good for. A process that finds it in the cache's index does not trace.
  SECTILE_NEEDS_COMPILER
  std::string code_hash(const Device &device, const Arg<I> &...arguments, const Config &config = {},
                        LaunchOptions options = {}) const
    requires(Signature::has_config)
  {
    return pack(config, options, arguments...,
                [&](const PackedLaunch &packed) { return KernelBase::codeHash(device, packed); });
  }
  SECTILE_NEEDS_COMPILER
  std::string code_hash(const Device &device, const Arg<I> &...arguments,
                        LaunchOptions options = {}) const
    requires(!Signature::has_config)
  {
    return pack({}, options, arguments...,
                [&](const PackedLaunch &packed) { return KernelBase::codeHash(device, packed); });
  }

  // The whole key under which the compile cache keeps what a launch with these arguments runs.
  SECTILE_NEEDS_COMPILER
  std::string cache_key(const Device &device, const Arg<I> &...arguments, const Config &config = {},
                        LaunchOptions options = {}) const
    requires(Signature::has_config)
  {
    return pack(config, options, arguments...,
                [&](const PackedLaunch &packed) { return KernelBase::cacheKey(device, packed); });
  }
  SECTILE_NEEDS_COMPILER
  std::string cache_key(const Device &device, const Arg<I> &...arguments,
                        LaunchOptions options = {}) const
    requires(!Signature::has_config)
  {
    return pack({}, options, arguments...,
                [&](const PackedLaunch &packed) { return KernelBase::cacheKey(device, packed); });
  }

  // The launch, kept for later. The kernel and what the arguments point to must still be there
  // then.
  BoundLaunch bind(Grid grid, const Arg<I> &...arguments, const Config &config = {},
                   LaunchOptions options = {}) const
    requires(Signature::has_config)
  {
    return pack(config, options, arguments...,
                [&](const PackedLaunch &packed) { return keepPacked(grid, packed); });
  }
  BoundLaunch bind(Grid grid, const Arg<I> &...arguments, LaunchOptions options = {}) const
    requires(!Signature::has_config)
  {
    return pack({}, options, arguments...,
                [&](const PackedLaunch &packed) { return keepPacked(grid, packed); });
  }
  // take(const PackedLaunch &) with what launch() launches.
  template <class Take>
  auto packed(const Arg<I> &...arguments, const Config &config, LaunchOptions options,
              Take &&take) const
    requires(Signature::has_config)
  {
    return pack(config, options, arguments..., take);
  }
  template <class Take>
  auto packed(const Arg<I> &...arguments, LaunchOptions options, Take &&take) const
    requires(!Signature::has_config)
  {
    return pack({}, options, arguments..., take);
  }

  // A launch that says nothing of its arguments, for BundleContents::add().
  BoundLaunch bind_any(const Config &config = {}, LaunchOptions options = {}) const
    requires(Signature::has_config)
  {
    const std::vector<std::uint64_t> none(words);
    const std::vector<Owner> owners(Signature::args.size());
    return packWords(none.data(), owners.data(), config, options,
                     [&](const PackedLaunch &packed) { return keepPacked({}, packed); });
  }
  BoundLaunch bind_any(LaunchOptions options = {}) const
    requires(!Signature::has_config)
  {
    const std::vector<std::uint64_t> none(words);
    const std::vector<Owner> owners(Signature::args.size());
    return packWords(none.data(), owners.data(), {}, options,
                     [&](const PackedLaunch &packed) { return keepPacked({}, packed); });
  }

protected:
  using KernelBase::KernelBase;

private:
  static constexpr std::size_t words = Signature::first.back();
  static_assert(words <= maxArguments, "a kernel with more arguments than a device can be given");

  template <class Use>
  auto pack(const Config &config, LaunchOptions options, const Arg<I> &...arguments,
            Use &&use) const {
    std::uint64_t values[words + 1];
    [[maybe_unused]] std::uint64_t *next = values;
    ((next = arguments.pack(next)), ...);
    Owner owners[Signature::args.size() + 1];
    [[maybe_unused]] Owner *owner = owners;
    ((owner = arguments.own(owner)), ...);
    return packWords(values, owners, config, options, use);
  }
  template <class Use>
  static auto packWords(const std::uint64_t *values, const Owner *owners, const Config &config,
                        LaunchOptions options, Use &&use) {
    PackedLaunch packed{values, owners, &config, nullptr, 0, nullptr, options};
    if constexpr (Signature::has_config) {
      if constexpr (requires { config.warps; })
        packed.options.warps = options.warps ? options.warps : static_cast<unsigned>(config.warps);
      if constexpr (requires { config.stages; })
        packed.options.stages =
            options.stages ? options.stages : static_cast<unsigned>(config.stages);
      if constexpr (requires { config.max_registers; })
        if (!options.max_registers)
          packed.options.max_registers = static_cast<unsigned>(config.max_registers);
      if constexpr (requires { config.min_programs; })
        if (!options.min_programs)
          packed.options.min_programs = static_cast<unsigned>(config.min_programs);
      static_assert(configWords<Config> <= maxConfigFields, "a configuration of too many fields");
      static_assert(std::is_trivially_copyable_v<Config> &&
                    alignof(Config) <= alignof(std::max_align_t));
      packed.configBytes = sizeof(Config);
      std::uint64_t fields[configWords<Config>];
      packConfig(config, fields);
      packed.configWords = fields;
      packed.configCount = configWords<Config>;
      packed.describeConfig = [](const void *config) {
        return describe(*static_cast<const Config *>(config));
      };
      return use(packed);
    } else {
      return use(packed);
    }
  }
};

template <class F>
using KernelOf = TypedKernel<Signature<F>, std::make_index_sequence<Signature<F>::args_count>>;

// A base that is there before the kernel's own: what the description points to.
template <class F> struct KernelFunction {
  F function;
};

} // namespace detail

// sectile::Kernel name{"name", [](Ptr<float> x, Int n, const Config &config) { … }};
template <class F> class Kernel : detail::KernelFunction<F>, public detail::KernelOf<F> {
public:
  // The name must outlive the kernel, as a literal does.
  Kernel(const char *name, F function, LaunchOptions options = {},
         detail::Location where = detail::Location::current())
      : detail::KernelFunction<F>{std::move(function)},
        detail::KernelOf<F>(detail::Signature<F>::describe(name, this->function, where), options) {}
};

} // namespace sectile
