// Random numbers: Philox 4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11),
// which makes four 32-bit words of a counter and a key, and what distributions make of them, of 10
// rounds. The same seed and offset give the same words on every device.
#pragma once
#include <array>
#include <sectile/tile.h>

namespace sectile {

namespace detail {
enum class Draw : std::uint8_t { words, uniform, normal };
// `count` of the four numbers that a counter gives.
void draw(Draw what, const Operand &seed, const Operand &offset, const Operand &word2,
          const Operand &word3, unsigned rounds, std::span<Value> numbers, Location where);

template <class T>
std::array<Tile<T>, 4> draw4(Draw what, const Operand &seed, const Operand &offset,
                             const Operand &word2, const Operand &word3, Location where,
                             unsigned rounds = 10) {
  Value numbers[4];
  draw(what, seed, offset, word2, word3, rounds, numbers, where);
  return {Tile<T>(numbers[0]), Tile<T>(numbers[1]), Tile<T>(numbers[2]), Tile<T>(numbers[3])};
}
template <class T>
Tile<T> draw1(Draw what, const Operand &seed, const Operand &offset, Location where) {
  Value number[1];
  draw(what, seed, offset, {where}, {where}, 10, number, where);
  return Tile<T>(number[0]);
}
} // namespace detail

// The generator itself. The 64 bits of the seed are its key; those of the offset are the counter's
// words 0 (the low half) and 1; words 2 and 3 are zero unless given. All are integers, numbers or
// tiles, and broadcast; signed ones are extended by their sign. With 7 rounds, the fewest that pass
// BigCrush (Salmon et al., table 2), it takes two thirds of the time.
template <unsigned rounds = 10>
std::array<Tile<std::uint32_t>, 4> philox(detail::Operand seed, detail::Operand offset,
                                          detail::Operand word2 = {}, detail::Operand word3 = {},
                                          detail::Location where = detail::Location::current()) {
  static_assert(rounds == 7 || rounds == 10, "sc::philox has 7 or 10 rounds");
  return detail::draw4<std::uint32_t>(detail::Draw::words, seed, offset, word2, word3, where,
                                      rounds);
}

// 32 random bits: word 0 of the counter.
inline Tile<std::uint32_t> randint(detail::Operand seed, detail::Operand offset,
                                   detail::Location where = detail::Location::current()) {
  return detail::draw1<std::uint32_t>(detail::Draw::words, seed, offset, where);
}
inline std::array<Tile<std::uint32_t>, 4>
randint4x(detail::Operand seed, detail::Operand offset,
          detail::Location where = detail::Location::current()) {
  return philox(seed, offset, {where}, {where}, where);
}

// Uniform in [0, 1): the upper 24 bits of a word, times 2^-24.
inline Tile<float> rand(detail::Operand seed, detail::Operand offset,
                        detail::Location where = detail::Location::current()) {
  return detail::draw1<float>(detail::Draw::uniform, seed, offset, where);
}
inline std::array<Tile<float>, 4> rand4x(detail::Operand seed, detail::Operand offset,
                                         detail::Location where = detail::Location::current()) {
  return detail::draw4<float>(detail::Draw::uniform, seed, offset, {where}, {where}, where);
}

// Normal with mean 0 and variance 1, by Box and Muller: with u = (word 0 + ½) · 2^-32 and v the
// uniform number of word 1, sqrt(-2 log u) · cos(2πv) and sqrt(-2 log u) · sin(2πv) are numbers 0
// and 1; words 2 and 3 give numbers 2 and 3. The largest is 6.8.
inline Tile<float> randn(detail::Operand seed, detail::Operand offset,
                         detail::Location where = detail::Location::current()) {
  return detail::draw1<float>(detail::Draw::normal, seed, offset, where);
}
inline std::array<Tile<float>, 4> randn4x(detail::Operand seed, detail::Operand offset,
                                          detail::Location where = detail::Location::current()) {
  return detail::draw4<float>(detail::Draw::normal, seed, offset, {where}, {where}, where);
}

} // namespace sectile
