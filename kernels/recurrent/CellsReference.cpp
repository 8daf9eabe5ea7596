// rnn, gru, lstm and their gradients on the host, step by step.
#include "kernels/recurrent/Cells.h"
#include "kernels/recurrent/Family.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;
using namespace sectile::cells;

namespace {

template <class Numbers> struct Sequence {
  using Number = typename Numbers::Number;
  using Array = std::vector<Number>;
  Numbers numbers;
  const Invocation &call;
  std::span<const HostArray> arrays;
  int cell;
  std::size_t directions, length, batch, inputs, h, gates, slots;

  Sequence(Numbers numbers, const Invocation &call, int cell, std::span<const HostArray> arrays)
      : numbers(numbers), call(call), arrays(arrays), cell(cell),
        directions(static_cast<std::size_t>(directionsOf(call))), length(size("T")),
        batch(size("B")), inputs(size("I")), h(size("H")), gates(size("G")),
        slots(static_cast<std::size_t>(slotsOf(cell))) {}

  std::size_t size(const char *axis) const { return static_cast<std::size_t>(call.extent(axis)); }
  // Zeros where it is left out.
  Array load(const char *name, std::size_t count) const {
    for (const ArgumentSpec &spec : call.kernel->arguments)
      if (spec.name == name && call.has(name))
        return numbers.load(arrays[call.index(name)]);
    return Array(count);
  }
  std::size_t position(std::size_t d, std::size_t step) const {
    return d == 0 ? step : length - 1 - step;
  }
  std::size_t row(std::size_t d, std::size_t t, std::size_t b) const {
    return (d * length + t) * batch + b;
  }
  // Where the state of this step is in y.
  std::size_t inY(std::size_t d, std::size_t t, std::size_t b) const {
    return ((t * batch + b) * directions + d) * h;
  }
  static Number sigmoid(Number x) { return 1 / (1 + std::exp(-x)); }
};

} // namespace

std::vector<HostArray> sectile::cellReference(const Invocation &call, int cell,
                                              std::span<const HostArray> arrays,
                                              Arithmetic arithmetic) {
  return with_arithmetic(arrays[0].dtype, arithmetic, [&](auto numbers) {
    const Sequence s(numbers, call, cell, arrays);
    using Number = typename decltype(numbers)::Number;
    const std::size_t h = s.h, states = s.directions * s.batch * h;
    const auto x = s.load("x", 0), wi = s.load("w_ih", 0), wh = s.load("w_hh", 0);
    const auto bi = s.load("b_ih", s.directions * s.gates),
               bh = s.load("b_hh", s.directions * s.gates);
    auto state = s.load("h0", states), memory = s.load("c0", states);
    std::vector<Number> y(s.length * s.batch * s.directions * h),
        reserve(s.directions * s.length * s.batch * s.slots * h), fromInput(s.gates),
        fromState(s.gates);
    for (std::size_t d = 0; d < s.directions; ++d)
      for (std::size_t step = 0; step < s.length; ++step)
        for (std::size_t b = 0; b < s.batch; ++b) {
          const std::size_t t = s.position(d, step);
          Number *own = state.data() + (d * s.batch + b) * h;
          Number *cells = memory.data() + (d * s.batch + b) * h;
          Number *saved = reserve.data() + s.row(d, t, b) * s.slots * h;
          for (std::size_t g = 0; g < s.gates; ++g) {
            Number a = 0, c = 0;
            for (std::size_t i = 0; i < s.inputs; ++i)
              a += x[(t * s.batch + b) * s.inputs + i] * wi[(d * s.gates + g) * s.inputs + i];
            for (std::size_t k = 0; k < h; ++k)
              c += own[k] * wh[(d * s.gates + g) * h + k];
            fromInput[g] = numbers.store(a + bi[d * s.gates + g]);
            fromState[g] = numbers.store(c + bh[d * s.gates + g]);
          }
          auto sum = [&](std::size_t g) { return fromInput[g] + fromState[g]; };
          for (std::size_t j = 0; j < h; ++j) {
            Number output = 0;
            if (cell == lstmCell) {
              const Number in = s.sigmoid(sum(j)), forget = s.sigmoid(sum(h + j)),
                           candidate = std::tanh(sum(2 * h + j)), out = s.sigmoid(sum(3 * h + j));
              cells[j] = forget * cells[j] + in * candidate;
              output = out * std::tanh(cells[j]);
              const Number values[] = {in, forget, candidate, out, cells[j]};
              for (std::size_t slot = 0; slot < 5; ++slot)
                saved[slot * h + j] = values[slot];
            } else if (cell == gruCell) {
              const Number reset = s.sigmoid(sum(j)), update = s.sigmoid(sum(h + j)),
                           hidden = fromState[2 * h + j],
                           candidate = std::tanh(fromInput[2 * h + j] + reset * hidden);
              output = (1 - update) * candidate + update * own[j];
              const Number values[] = {reset, update, candidate, hidden};
              for (std::size_t slot = 0; slot < 4; ++slot)
                saved[slot * h + j] = values[slot];
            } else {
              output = cell == tanhCell ? std::tanh(sum(j)) : std::max<Number>(sum(j), 0);
              saved[j] = output;
            }
            y[s.inY(d, t, b) + j] = numbers.store(output);
          }
          // All gates have read the state before.
          for (std::size_t j = 0; j < h; ++j)
            own[j] = y[s.inY(d, t, b) + j];
        }
    if (cell == lstmCell)
      return outputsOf(call, numbers, y, state, memory, reserve);
    return outputsOf(call, numbers, y, state, reserve);
  });
}

std::vector<HostArray> sectile::cellBackwardReference(const Invocation &call, int cell,
                                                      std::span<const HostArray> arrays,
                                                      Arithmetic arithmetic) {
  return with_arithmetic(arrays[0].dtype, arithmetic, [&](auto numbers) {
    const Sequence s(numbers, call, cell, arrays);
    using Number = typename decltype(numbers)::Number;
    const std::size_t h = s.h, states = s.directions * s.batch * h;
    const auto x = s.load("x", 0), wi = s.load("w_ih", 0), wh = s.load("w_hh", 0);
    const auto h0 = s.load("h0", states), c0 = s.load("c0", states), y = s.load("y", 0),
               reserve = s.load("reserve", 0), dy = s.load("dy", 0);
    auto carried = s.load("dh_n", states), memory = s.load("dc_n", states);
    std::vector<Number> dx(x.size()), dwi(wi.size()), dwh(wh.size()), dbi(s.directions * s.gates),
        dbh(dbi.size()), toInput(s.gates), toState(s.gates);
    for (std::size_t d = 0; d < s.directions; ++d)
      for (std::size_t step = s.length; step-- > 0;)
        for (std::size_t b = 0; b < s.batch; ++b) {
          const std::size_t t = s.position(d, step), place = (d * s.batch + b) * h;
          const std::size_t earlier = step ? s.position(d, step - 1) : 0;
          const Number *saved = reserve.data() + s.row(d, t, b) * s.slots * h;
          auto stateBefore = [&](std::size_t j) {
            return step ? y[s.inY(d, earlier, b) + j] : h0[place + j];
          };
          auto slot = [&](std::size_t index, std::size_t j) { return saved[index * h + j]; };
          std::vector<Number> passed(h);
          for (std::size_t j = 0; j < h; ++j) {
            const Number dh = carried[place + j] + dy[s.inY(d, t, b) + j];
            auto give = [&](std::size_t g, Number input, Number state) {
              toInput[g * h + j] = numbers.store(input);
              toState[g * h + j] = numbers.store(state);
            };
            if (cell == lstmCell) {
              const Number in = slot(0, j), forget = slot(1, j), candidate = slot(2, j),
                           out = slot(3, j), bent = std::tanh(slot(4, j));
              const Number cellBefore =
                  step ? reserve[s.row(d, earlier, b) * 5 * h + 4 * h + j] : c0[place + j];
              const Number dc = memory[place + j] + dh * out * (1 - bent * bent);
              const Number sums[] = {
                  dc * candidate * in * (1 - in), dc * cellBefore * forget * (1 - forget),
                  dc * in * (1 - candidate * candidate), dh * bent * out * (1 - out)};
              for (std::size_t g = 0; g < 4; ++g)
                give(g, sums[g], sums[g]);
              memory[place + j] = dc * forget;
            } else if (cell == gruCell) {
              const Number reset = slot(0, j), update = slot(1, j), candidate = slot(2, j),
                           hidden = slot(3, j);
              const Number dn = dh * (1 - update) * (1 - candidate * candidate),
                           dr = dn * hidden * reset * (1 - reset),
                           dz = dh * (stateBefore(j) - candidate) * update * (1 - update);
              give(0, dr, dr);
              give(1, dz, dz);
              give(2, dn, dn * reset);
              passed[j] = dh * update;
            } else {
              const Number state = slot(0, j);
              const Number sum = cell == tanhCell ? dh * (1 - state * state)
                                 : state > 0      ? dh
                                                  : Number(0);
              give(0, sum, sum);
            }
          }
          for (std::size_t g = 0; g < s.gates; ++g) {
            const std::size_t gate = d * s.gates + g;
            dbi[gate] += toInput[g];
            dbh[gate] += toState[g];
            for (std::size_t i = 0; i < s.inputs; ++i) {
              const std::size_t at = (t * s.batch + b) * s.inputs + i;
              dx[at] += toInput[g] * wi[gate * s.inputs + i];
              dwi[gate * s.inputs + i] += toInput[g] * x[at];
            }
            for (std::size_t k = 0; k < h; ++k) {
              passed[k] += toState[g] * wh[gate * h + k];
              dwh[gate * h + k] += toState[g] * stateBefore(k);
            }
          }
          std::copy(passed.begin(), passed.end(),
                    carried.begin() + static_cast<std::ptrdiff_t>(place));
        }
    if (cell == lstmCell)
      return outputsOf(call, numbers, dx, dwi, dwh, dbi, dbh, carried, memory);
    return outputsOf(call, numbers, dx, dwi, dwh, dbi, dbh, carried);
  });
}
