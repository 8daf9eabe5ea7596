// Loops and branches of the kernel: range, when, loop_while. Their bodies are traced once; every
// variable that a body assigns is carried through.
#pragma once
#include <optional>
#include <sectile/tile.h>

namespace sectile {

// Hints; 0 leaves the choice to the compiler. A remark says of each that has no effect why.
struct LoopOptions {
  int stages = 0; // how many iterations' loads are in flight
  int unroll = 0; // how many iterations one round of the loop is; 1 keeps the compiler from it
  std::optional<bool> warp_specialize = {}; // loads by a warp of their own, where that can be done
  bool disallow_acc_multi_buffer = false;   // no dot of the next iteration beside this one
  bool flatten = false; // make one loop of this and the loops in it; nothing acts on it yet
};

namespace detail {
// A lambda, without its type.
class Callback {
public:
  template <class F>
  Callback(F &function)
      : object_(&function), call_([](void *object) { (*static_cast<F *>(object))(); }) {}
  void operator()() const { call_(object_); }

private:
  void *object_;
  void (*call_)(void *);
};

void branch(const Operand &condition, const Callback &then, const Callback *otherwise,
            Location where);
// `condition` leaves its result in `holds`.
void whileLoop(const Callback &condition, const Value &holds, const Callback &body, Location where);
} // namespace detail

// What sc::range returns: the C++ loop over it runs its body once, to trace it.
class Range {
public:
  Range(detail::Operand begin, detail::Operand end, detail::Operand step, LoopOptions options,
        detail::Location where);
  ~Range();
  Range(const Range &) = delete;
  Range &operator=(const Range &) = delete;

  struct End {};
  class Iterator {
  public:
    explicit Iterator(Range &range) : range_(&range) {}
    Int operator*() const { return range_->index(); }
    Iterator &operator++() {
      range_->finish();
      return *this;
    }
    bool operator!=(End) const { return range_->running(); }

  private:
    Range *range_;
  };
  Iterator begin() {
    start();
    return Iterator(*this);
  }
  End end() const { return {}; }

private:
  void start();
  Int index() const;
  void finish();
  bool running() const;

  struct State;
  State *state_;
};

// for (auto i : sc::range(begin, end, step)): a loop of the kernel. The step is positive; where
// begin >= end the body does not run. Bounds are numbers or traced integers.
inline Range range(detail::Operand end, LoopOptions options = {},
                   detail::Location where = detail::Location::current()) {
  return Range({0, where}, end, {1, where}, options, where);
}
inline Range range(detail::Operand begin, detail::Operand end, LoopOptions options = {},
                   detail::Location where = detail::Location::current()) {
  return Range(begin, end, {1, where}, options, where);
}
inline Range range(detail::Operand begin, detail::Operand end, detail::Operand step,
                   LoopOptions options = {}, detail::Location where = detail::Location::current()) {
  return Range(begin, end, step, options, where);
}

// for (auto i : sc::static_range(begin, end, step)): a loop of the host over its own numbers. The
// body is traced once for each, so i shapes tiles and indexes C++ arrays. A negative step counts
// down.
class StaticRange {
public:
  constexpr StaticRange(std::int64_t begin, std::int64_t end, std::int64_t step)
      : begin_(begin), end_(end), step_(step) {}

  class Iterator {
  public:
    constexpr Iterator(std::int64_t at, std::int64_t step) : at_(at), step_(step) {}
    constexpr std::int64_t operator*() const { return at_; }
    constexpr Iterator &operator++() {
      at_ += step_;
      return *this;
    }
    constexpr bool operator!=(const Iterator &end) const {
      return step_ > 0 ? at_ < end.at_ : at_ > end.at_;
    }

  private:
    std::int64_t at_, step_;
  };
  constexpr Iterator begin() const { return {begin_, step_}; }
  constexpr Iterator end() const { return {end_, step_}; }

private:
  std::int64_t begin_, end_, step_;
};

StaticRange static_range(detail::Extent end);
StaticRange static_range(detail::Extent begin, detail::Extent end, detail::Extent step = 1);

// Runs `then` where the condition, one bool, holds. A C++ bool is decided while tracing.
template <class Then>
void when(detail::Operand condition, Then &&then,
          detail::Location where = detail::Location::current()) {
  detail::branch(condition, then, nullptr, where);
}
template <class Then, class Otherwise>
  requires std::invocable<Otherwise &>
void when(detail::Operand condition, Then &&then, Otherwise &&otherwise,
          detail::Location where = detail::Location::current()) {
  const detail::Callback callback = otherwise;
  detail::branch(condition, then, &callback, where);
}

// Runs `body` again and again while `condition`, a lambda that returns one bool, holds.
template <class Condition, class Body>
void loop_while(Condition &&condition, Body &&body,
                detail::Location where = detail::Location::current()) {
  using Holds = std::remove_cvref_t<decltype(condition())>;
  static_assert(std::same_as<Holds, Tile<bool>> || std::same_as<Holds, bool>,
                "the condition of sc::loop_while is a lambda that returns a traced bool, as in "
                "[&] { return i < n; }");
  Tile<bool> holds;
  auto evaluate = [&] { holds = condition(); };
  detail::whileLoop(evaluate, holds.handle(), body, where);
}

} // namespace sectile
