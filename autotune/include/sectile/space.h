// Space: the configurations that the autotuner tries. Fields of the kernel's configuration, warps
// and stages take the values listed, in all combinations that the constraints allow.
#pragma once
#include <functional>
#include <initializer_list>
#include <sectile/kernel.h>
#include <sectile/tuning.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace sectile {

template <class Config> class Space;

namespace detail {

// What one value of an axis does to a candidate.
template <class Config> using Setting = std::function<void(Config &, LaunchOptions &)>;
template <class Config>
using Constraint = std::function<bool(const Config &, const LaunchOptions &)>;
template <class Config>
using LaunchConstraint =
    std::function<bool(const Config &, const LaunchOptions &, const LaunchArguments &)>;

// Of an axis that sets warps or stages, which fits every kernel.
using LaunchSetting = std::function<void(LaunchOptions &)>;

} // namespace detail

// Axes that set warps and stages and no field of a configuration.
class LaunchSpace {
public:
  explicit LaunchSpace(std::vector<detail::LaunchSetting> values) : axes_{std::move(values)} {}

  friend LaunchSpace operator*(LaunchSpace a, const LaunchSpace &b) {
    a.axes_.insert(a.axes_.end(), b.axes_.begin(), b.axes_.end());
    return a;
  }
  const std::vector<std::vector<detail::LaunchSetting>> &axes() const { return axes_; }

private:
  std::vector<std::vector<detail::LaunchSetting>> axes_;
};

inline LaunchSpace warps(std::initializer_list<unsigned> values) {
  std::vector<detail::LaunchSetting> settings;
  for (unsigned value : values)
    settings.push_back([value](LaunchOptions &options) { options.warps = value; });
  return LaunchSpace(std::move(settings));
}
inline LaunchSpace stages(std::initializer_list<unsigned> values) {
  std::vector<detail::LaunchSetting> settings;
  for (unsigned value : values)
    settings.push_back([value](LaunchOptions &options) { options.stages = value; });
  return LaunchSpace(std::move(settings));
}

template <class Config> class Space {
public:
  Space() = default; // of the reference configuration alone
  Space(const LaunchSpace &launch) {
    for (const auto &axis : launch.axes()) {
      std::vector<detail::Setting<Config>> &values = axes_.emplace_back();
      for (const detail::LaunchSetting &setting : axis)
        values.push_back([setting](Config &, LaunchOptions &options) { setting(options); });
    }
  }
  explicit Space(std::vector<detail::Setting<Config>> values) : axes_{std::move(values)} {}

  friend Space operator*(Space a, const Space &b) {
    a.axes_.insert(a.axes_.end(), b.axes_.begin(), b.axes_.end());
    a.constraints_.insert(a.constraints_.end(), b.constraints_.begin(), b.constraints_.end());
    a.launchConstraints_.insert(a.launchConstraints_.end(), b.launchConstraints_.begin(),
                                b.launchConstraints_.end());
    a.captures_ |= b.captures_;
    return a;
  }

  // Leaves out the candidates for which the predicate does not hold. It takes (const Config &,
  // const LaunchOptions &), the latter with the warps and stages that the candidate runs with.
  //
  // Whether a candidate is right may depend on the launch, as where a block must hold a whole row.
  // Then the predicate also takes (const LaunchArguments &). The tuner asks it for every launch,
  // and no launch or tuning uses a configuration that it does not hold for, the kernel's own
  // included. Several threads may ask it at once.
  //
  // A predicate without arguments is asked once, when the tuner is made. If it captures variables,
  // it may depend on a shape that the tuner cannot see. Each shape is then tuned by itself.
  template <class Predicate> Space where(Predicate holds) const {
    Space result = *this;
    if constexpr (std::is_invocable_r_v<bool, Predicate &, const Config &, const LaunchOptions &,
                                        const LaunchArguments &>) {
      result.launchConstraints_.push_back(std::move(holds));
    } else {
      static_assert(
          std::is_invocable_r_v<bool, Predicate &, const Config &, const LaunchOptions &>,
          "the predicate of a space takes (const Config &, const LaunchOptions &) and, if it "
          "depends on the launch, (const LaunchArguments &), and returns a bool");
      result.captures_ |= !std::is_empty_v<Predicate> && !std::is_pointer_v<Predicate>;
      result.constraints_.push_back(std::move(holds));
    }
    return result;
  }

  // Whether a predicate takes the launch's arguments, and whether all those hold for some.
  bool asks_arguments() const { return !launchConstraints_.empty(); }
  bool holds(const Config &config, const LaunchOptions &options,
             const LaunchArguments &arguments) const {
    for (const auto &constraint : launchConstraints_)
      if (!constraint(config, options, arguments))
        return false;
    return true;
  }
  // Whether a predicate that takes no arguments captures variables.
  bool captures() const { return captures_; }

  // Every candidate, the last axis changing fastest. `base` says what the axes do not, `usual` the
  // warps and stages of a candidate that says neither.
  std::vector<std::pair<Config, LaunchOptions>> candidates(const Config &base,
                                                           const LaunchOptions &usual) const {
    std::vector<std::pair<Config, LaunchOptions>> result;
    std::vector<std::size_t> place(axes_.size());
    for (const auto &axis : axes_)
      if (axis.empty())
        return result;
    for (bool more = true; more;) {
      std::pair<Config, LaunchOptions> candidate(base, {});
      for (std::size_t i = 0; i < axes_.size(); ++i)
        axes_[i][place[i]](candidate.first, candidate.second);
      completeOptions(candidate.first, candidate.second, usual);
      bool holds = true;
      for (const auto &constraint : constraints_)
        holds = holds && constraint(candidate.first, candidate.second);
      if (holds)
        result.push_back(std::move(candidate));
      more = false;
      for (std::size_t i = axes_.size(); i-- > 0 && !more;) {
        more = ++place[i] < axes_[i].size();
        if (!more)
          place[i] = 0;
      }
    }
    return result;
  }

  // Warps and stages as the candidate has them, in the configuration where that has such fields.
  static void completeOptions(Config &config, LaunchOptions &options, const LaunchOptions &usual) {
    if constexpr (requires { config.warps; }) {
      if (options.warps)
        config.warps = static_cast<decltype(config.warps)>(options.warps);
      options.warps = static_cast<unsigned>(config.warps);
    }
    if constexpr (requires { config.stages; }) {
      if (options.stages)
        config.stages = static_cast<decltype(config.stages)>(options.stages);
      options.stages = static_cast<unsigned>(config.stages);
    }
    if (!options.warps)
      options.warps = usual.warps ? usual.warps : detail::defaultWarps;
    if (!options.stages)
      options.stages = usual.stages ? usual.stages : detail::defaultStages;
  }

private:
  std::vector<std::vector<detail::Setting<Config>>> axes_;
  std::vector<detail::Constraint<Config>> constraints_;
  std::vector<detail::LaunchConstraint<Config>> launchConstraints_;
  bool captures_ = false;
};

template <class Config> Space<Config> operator*(const Space<Config> &a, const LaunchSpace &b) {
  return a * Space<Config>(b);
}
template <class Config> Space<Config> operator*(const LaunchSpace &a, const Space<Config> &b) {
  return Space<Config>(a) * b;
}

// An axis: the values of one field of a kernel's configuration.
template <class Config, class Value>
Space<Config> space(Value Config::*field,
                    std::initializer_list<std::type_identity_t<Value>> values) {
  std::vector<detail::Setting<Config>> settings;
  for (const Value &value : values)
    settings.push_back([field, value](Config &config, LaunchOptions &) { config.*field = value; });
  return Space<Config>(std::move(settings));
}

} // namespace sectile
