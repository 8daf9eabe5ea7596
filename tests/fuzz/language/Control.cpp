// Random control flow: nested loops, branches and functions of single elements, whose bounds and
// conditions are computed, that exchange numbers and tiles of every type, and write memory. The
// same program runs as a kernel and on the host.
#include "tests/fuzz/language/Cases.h"
#include "tests/fuzz/language/control/Machine.h"
#include <chrono>
#include <cstring>
#include <functional>

namespace sectile::fuzz {

using namespace control;

namespace {

//===-- Comparing -----------------------------------------------------------------------------===//

/// What a program leaves: its memory, and variables.
struct Outcome {
  std::vector<std::int64_t> memory, wholes;
  std::vector<double> reals;
};

Outcome onHost(const Program &program) {
  Outcome outcome{program.memory, {}, {}};
  for (unsigned number = 0; number < program.programs; ++number) {
    Machine<OnHost> machine(OnHost{outcome.memory.data() + number * width, number});
    machine.declare<Index>(program.n);
    machine.declare<std::int32_t>(program.a);
    machine.declare<float>(program.b);
    machine.runOpen(program.body);
    for (const Variable &result : program.results)
      visit(result.type, [&]<class T>(TypeBox<T>) {
        const Host<T> x = machine.variable<T>(result.index);
        for (int i = 0; i < width; ++i) {
          const bool is = result.isTile || i == 0;
          outcome.wholes.push_back(is && !isReal<T> ? cast<std::int64_t>(x)[i] : 0);
          outcome.reals.push_back(is && isReal<T> ? cast<double>(x)[i] : 0);
        }
      });
  }
  return outcome;
}

Outcome onDevice(const Program &program, const Device &device) {
  const auto slots = std::int64_t(program.results.size()) * width;
  const Kernel kernel{"control", [program, slots](Ptr<std::int64_t> memory,
                                                  Ptr<std::int64_t> wholes, Ptr<double> reals,
                                                  Int n, Scalar<std::int32_t> a, Float b, Int) {
                        Machine<Traced> machine(Traced{memory + program_id(0) * width});
                        machine.declare<Index>(n);
                        machine.declare<std::int32_t>(a);
                        machine.declare<float>(b);
                        machine.runOpen(program.body);
                        Int at = program_id(0) * slots;
                        for (const Variable &result : program.results) {
                          visit(result.type, [&]<class T>(TypeBox<T>) {
                            const Tile<T> x = machine.variable<T>(result.index);
                            const Int to = result.isTile ? at + arange(0, width) : at;
                            if constexpr (isReal<T>)
                              store(reals + to, sectile::cast<double>(x));
                            else
                              store(wholes + to, sectile::cast<std::int64_t>(x));
                          });
                          at = at + width;
                        }
                      }};
  const auto memory = device.upload(program.memory);
  const auto count = std::size_t(slots) * program.programs;
  const auto wholes = device.upload(std::vector<std::int64_t>(count));
  const auto reals = device.upload(std::vector<double>(count));
  kernel.launch(device.stream(), program.programs, memory, wholes, reals, program.n, program.a,
                program.b, program.isWide ? std::int64_t{1} << 33 : 0, {.warps = program.warps});
  return {memory.download(), wholes.download(), reals.download()};
}

std::optional<std::string> difference(const Program &program, const Outcome &is,
                                      const Outcome &wanted) {
  for (std::size_t i = 0; i < is.memory.size(); ++i)
    if (is.memory[i] != wanted.memory[i])
      return "wrong: place " + std::to_string(i) + " of memory is " + std::to_string(is.memory[i]) +
             ", not " + std::to_string(wanted.memory[i]);
  for (std::size_t i = 0; i < is.wholes.size(); ++i) {
    const Variable &variable = program.results[i / width % program.results.size()];
    const std::string name = std::string("wrong: ") + typeNames[variable.type] + "_" +
                             std::to_string(variable.index) + "[" + std::to_string(i % width) +
                             "] of program " + std::to_string(i / width / program.results.size()) +
                             " is ";
    const double a = is.reals[i], b = wanted.reals[i];
    if (is.wholes[i] != wanted.wholes[i])
      return name + std::to_string(is.wholes[i]) + ", not " + std::to_string(wanted.wholes[i]);
    if (!(std::isnan(a) && std::isnan(b)) && std::memcmp(&a, &b, sizeof a) != 0)
      return name + std::to_string(a) + ", not " + std::to_string(b);
  }
  return std::nullopt;
}

//===-- Reducing ------------------------------------------------------------------------------===//

/// Takes away what a failure does not need, for as long as the same goes wrong without it.
class Reducer {
public:
  Reducer(Program program, std::function<bool(const Program &)> fails)
      : program(std::move(program)), fails(std::move(fails)) {}

  Program reduced() {
    do {
      isSmaller = false;
      do {
        hasLess = false;
        statements(program.body, false);
      } while (hasLess);
      statements(program.body, true);
    } while (isSmaller && isInTime());
    return program;
  }

private:
  Program program;
  std::function<bool(const Program &)> fails;
  /// Well before the fuzzer takes the work for endless.
  std::chrono::steady_clock::time_point end =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool isSmaller = false, hasLess = false;

  bool isInTime() const { return std::chrono::steady_clock::now() < end; }

  /// Puts something else there if the program still fails.
  template <class X> bool tries(X &place, X instead) {
    if (!isInTime())
      return false;
    std::swap(place, instead);
    if (fails(program))
      return isSmaller = hasLess = true;
    std::swap(place, instead);
    return false;
  }

  void statements(std::vector<Statement> &body, bool alsoExpressions) {
    // Half, a quarter, … at once.
    for (std::size_t count = body.size() / 2; count > 1; count /= 2)
      for (std::size_t i = body.size() / count; i-- > 0;) {
        std::vector<Statement> without = body;
        const auto first = without.begin() + std::ptrdiff_t(i * count);
        without.erase(first, first + std::ptrdiff_t(count));
        tries(body, without);
      }
    for (std::size_t i = body.size(); i-- > 0;) {
      std::vector<Statement> without = body;
      without.erase(without.begin() + std::ptrdiff_t(i));
      if (tries(body, without))
        continue;
      for (auto part : {&Statement::body, &Statement::otherwise}) {
        std::vector<Statement> inside = without;
        const std::vector<Statement> &of = body[i].*part;
        inside.insert(inside.begin() + std::ptrdiff_t(i), of.begin(), of.end());
        if (!of.empty() && tries(body, inside))
          break;
      }
      if (i >= body.size())
        continue;
      for (auto part : {&Statement::condition, &Statement::body, &Statement::otherwise})
        statements(body[i].*part, alsoExpressions);
      if (alsoExpressions)
        for (Expression &operand : body[i].operands)
          expression(operand);
    }
  }

  void expression(Expression &x) {
    while (!x.operands.empty()) {
      bool isDone = true;
      for (const Expression &operand : std::vector(x.operands))
        if (operand.type == x.type && tries(x, operand)) {
          isDone = false;
          break;
        }
      if (isDone)
        break;
    }
    if (x.op != Op::Constant)
      for (std::int64_t number : {0, 1})
        if (tries(x, constant(x.type, number, x.isTile)))
          break;
    statements(x.body, true);
    for (Expression &operand : x.operands)
      expression(operand);
  }
};

/// What went wrong.
struct Failure {
  std::string device, kind, what;
};

std::optional<Failure> failureOf(const Program &program, const std::string &device, HostSlip slip) {
  std::string at = "the host";
  try {
    hostSlip = slip;
    const Outcome wanted = onHost(program);
    hostSlip = HostSlip::None;
    for (const std::string &name : {std::string("interpreter"), device}) {
      at = name;
      if (auto wrong = difference(program, onDevice(program, Device::open(name)), wanted))
        return Failure{at, "wrong", *wrong};
    }
  } catch (const std::exception &error) {
    // Without the line.
    const std::string what = error.what();
    return Failure{at, what.substr(std::min(what.find(": "), what.size())), what};
  }
  return std::nullopt;
}

} // namespace

std::optional<std::string> controlFlow(uint64_t seed, const std::string &device, HostSlip slip) {
  Draw draw(seed);
  Program program = someProgram(draw);
  auto failure = failureOf(program, device, slip);
  if (!failure)
    return std::nullopt;
  if (slip == HostSlip::None) {
    program = Reducer(program, [&](const Program &smaller) {
                const auto now = failureOf(smaller, device, slip);
                return now && now->device == failure->device && now->kind == failure->kind;
              }).reduced();
    failure = failureOf(program, device, slip);
  }
  return failure->what + "\n  on " + failure->device + ": " + std::to_string(program.programs) +
         " programs of " + std::to_string(program.warps) + " warps, " +
         (program.isWide ? "wide" : "narrow") + ", n " + std::to_string(program.n) + ", a " +
         std::to_string(program.a) + ", b " + std::to_string(program.b) + "\n" +
         text(program.body, "  ");
}

} // namespace sectile::fuzz
