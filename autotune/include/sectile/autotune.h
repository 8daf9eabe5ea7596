// Autotuner: a kernel that finds its fastest configuration for each kind of shape by itself.
#pragma once
#include <memory>
#include <sectile/space.h>
#include <sectile/tuning.h>

namespace sectile {

namespace detail {

// What of an Autotuner needs no types. Candidate 0 is the kernel's own configuration.
class AutotunerBase {
public:
  AutotunerBase(const AutotunerBase &) = delete;
  AutotunerBase &operator=(const AutotunerBase &) = delete;

protected:
  using Bind = std::function<BoundLaunch(std::size_t candidate)>;
  // Whether a candidate is valid for a launch.
  using Holds = std::function<bool(std::size_t candidate, const LaunchArguments &)>;

  AutotunerBase(const KernelBase &kernel, AutotuneOptions options);
  ~AutotunerBase();
  // `holds` null: all are valid for all launches. `captures` as Space says it.
  void setCandidates(std::vector<std::string> names, Holds holds, bool captures);

  // The candidate that launches of these arguments take from now on, if that is settled.
  std::optional<std::size_t> settled(const Stream &stream, const std::uint64_t *words) const;
  // Chooses it: looks it up, tunes.
  std::size_t choose(const Stream &stream, const std::uint64_t *words, const Bind &bind);
  TuneReport tune(const Stream &stream, const Bind &bind);
  std::size_t bestKnown(const Stream &stream, const Bind &bind) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class F, class Indices> class TypedAutotuner;

template <class F, std::size_t... I>
class TypedAutotuner<F, std::index_sequence<I...>> : public AutotunerBase {
  using Signature = detail::Signature<F>;
  template <std::size_t J> using Arg = Argument<typename Signature::template Arg<J>>;

public:
  using Config = typename Signature::Config;
  struct Choice {
    Config config;
    LaunchOptions options;
  };

  // Launches the kernel with the best configuration for such arguments. Where none is known, the
  // first launch tunes (SECTILE_AUTOTUNE=on), or takes the best of the nearest bucket (cached).
  // Throws LaunchError if the space's predicates hold for no candidate. `grid` is a function of the
  // configuration, or a grid.
  template <class G> void launch(const Stream &stream, const G &grid, const Arg<I> &...arguments) {
    std::uint64_t words[1 + Signature::first.back()];
    [[maybe_unused]] std::uint64_t *next = words;
    ((next = arguments.pack(next)), ...);
    const std::optional<std::size_t> known = settled(stream, words);
    const Choice &choice =
        choices_[known ? *known : choose(stream, words, binder(grid, arguments...))];
    if constexpr (Signature::has_config)
      kernel_.launch(stream, gridOf(grid, choice), arguments..., choice.config, choice.options);
    else
      kernel_.launch(stream, gridOf(grid, choice), arguments..., choice.options);
  }

  // Measures what is not known yet of the candidates, for such arguments. The memory of outputs is
  // left as it was. What has been measured is kept one by one.
  template <class G>
  TuneReport tune(const Stream &stream, const G &grid, const Arg<I> &...arguments) {
    return AutotunerBase::tune(stream, binder(grid, arguments...));
  }

  // What launch() would take without tuning.
  Choice best(const Stream &stream, const Arg<I> &...arguments) const {
    return choices_[bestKnown(stream, binder(Grid(), arguments...))];
  }

  // The candidates, the kernel's own configuration first. A launch or a tuning uses those that are
  // valid for its arguments; the first of these is its reference configuration.
  const std::vector<Choice> &candidates() const { return choices_; }

protected:
  TypedAutotuner(const Kernel<F> &kernel, const Space<Config> &space, AutotuneOptions options)
      : AutotunerBase(kernel, std::move(options)), kernel_(kernel) {
    Choice reference;
    Space<Config>::completeOptions(reference.config, reference.options, kernel.options());
    std::vector<std::string> names;
    add(reference, names);
    for (auto &[config, launch] : space.candidates(Config{}, kernel.options()))
      add({config, launch}, names);
    Holds holds;
    if (space.asks_arguments())
      holds = [this, space](std::size_t candidate, const LaunchArguments &arguments) {
        return space.holds(choices_[candidate].config, choices_[candidate].options, arguments);
      };
    setCandidates(std::move(names), std::move(holds), space.captures());
  }

private:
  void add(const Choice &choice, std::vector<std::string> &names) {
    std::string name;
    if constexpr (Signature::has_config)
      name = describe(choice.config);
    if constexpr (!requires { choice.config.warps; })
      name += (name.empty() ? "warps=" : " warps=") + std::to_string(choice.options.warps);
    if constexpr (!requires { choice.config.stages; })
      name += " stages=" + std::to_string(choice.options.stages);
    for (const std::string &other : names)
      if (other == name)
        return;
    names.push_back(std::move(name));
    choices_.push_back(choice);
  }

  template <class G> static Grid gridOf(const G &grid, [[maybe_unused]] const Choice &choice) {
    if constexpr (std::is_invocable_v<const G &, const Config &, const LaunchOptions &>)
      return Grid(grid(choice.config, choice.options));
    else if constexpr (std::is_invocable_v<const G &, const Config &>)
      return Grid(grid(choice.config));
    else if constexpr (std::is_invocable_v<const G &>)
      return Grid(grid());
    else
      return Grid(grid);
  }

  template <class G> auto binder(const G &grid, const Arg<I> &...arguments) const {
    return [&](std::size_t candidate) {
      const Choice &choice = choices_[candidate];
      if constexpr (Signature::has_config)
        return kernel_.bind(gridOf(grid, choice), arguments..., choice.config, choice.options);
      else
        return kernel_.bind(gridOf(grid, choice), arguments..., choice.options);
    };
  }

  const Kernel<F> &kernel_;
  std::vector<Choice> choices_;
};

} // namespace detail

// sectile::Autotuner tuned{kernel, space(&Config::m, {64, 128}) * warps({4, 8}), options};
// The kernel must outlive it. Any number of threads may launch at once.
template <class F>
class Autotuner
    : public detail::TypedAutotuner<F, std::make_index_sequence<detail::Signature<F>::args_count>> {
#ifdef SECTILE_SEALED
  static_assert(detail::always_false<F>,
                "a sealed program has no compiler, so it cannot tune: link Sectile::sectile in "
                "place of Sectile::runtime and Sectile::kernels");
#endif
  using Base =
      detail::TypedAutotuner<F, std::make_index_sequence<detail::Signature<F>::args_count>>;

public:
  Autotuner(const Kernel<F> &kernel, const Space<typename Base::Config> &space = {},
            AutotuneOptions options = {})
      : Base(kernel, space, std::move(options)) {}
};

} // namespace sectile
