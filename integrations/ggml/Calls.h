// Tensors and calls of Sectile as the translation of ggml's nodes needs them.
#pragma once
#include "Operations.h"
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <vector>

namespace ggml_sectile {

constexpr int maxAxes = 6;

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool condition, const char *what) {
  if (!condition)
    throw Refused(what);
}

// A tensor as Sectile counts its axes: ggml's last one first.
struct Array {
  void *data = nullptr;
  DLDataType type{};
  int rank = 0;
  std::array<int64_t, maxAxes> shape{}, strides{}; // in elements

  int64_t elements() const;
  int64_t bytesOfElement() const { return type.bits / 8; }
  bool sameShape(const Array &other) const;
  // One place along the first axis; without axes of one element in front.
  Array at(int64_t index) const;
  Array inner(int axes) const;
  Array permuted(std::initializer_list<int> axes) const;
  // `count` elements along an axis, from `begin` on.
  Array part(int axis, int64_t begin, int64_t count) const;
};

constexpr DLDataType float32{kDLFloat, 32, 1}, float16{kDLFloat, 16, 1}, bfloat16{kDLBfloat, 16, 1},
    int32{kDLInt, 32, 1}, int64{kDLInt, 64, 1}, uint8{kDLUInt, 8, 1};

inline bool isSame(const DLDataType &a, const DLDataType &b) {
  return a.code == b.code && a.bits == b.bits;
}

// Throws Refused for a type of element that Sectile does not have.
Array arrayOf(const ggml_tensor *tensor);
// Dense ones: of a shape, or of the shape of another.
Array dense(DLDataType type, std::initializer_list<int64_t> shape, void *data = nullptr);
Array dense(DLDataType type, const Array &like, void *data = nullptr);

inline sectile_option number(const char *name, double value) {
  return {name, SECTILE_DOUBLE, {.d = value}};
}
inline sectile_option text(const char *name, const char *value) {
  return {name, SECTILE_TEXT, {.text = value}};
}
inline sectile_option integer(const char *name, int64_t value) {
  return {name, SECTILE_INT64, {.i = value}};
}

// A node's parameter, of a float or an integer.
inline float parameter(const ggml_tensor &node, int index) {
  float value;
  std::memcpy(&value, node.op_params + index, sizeof value);
  return value;
}
inline int32_t whole(const ggml_tensor &node, int index) { return node.op_params[index]; }

// The calls of one node, checked or run.
class Work {
public:
  // Without a stream: only checks.
  explicit Work(const Place &place) : place(place) {}
  ~Work();
  Work(const Work &) = delete;
  Work &operator=(const Work &) = delete;

  // Memory until the work of this node is done.
  Array scratch(DLDataType type, const Array &like);
  Array scratch(DLDataType type, std::initializer_list<int64_t> shape);
  // So many times the same number.
  Array filled(float value, int64_t count);
  // Inputs, then outputs; null for an input that is left out. Throws Refused, or std::runtime_error
  // where it runs.
  void call(const char *name, std::initializer_list<const Array *> arguments,
            std::initializer_list<sectile_option> options = {});

private:
  Place place;
  std::vector<void *> scratches;
};

// y = f(x) by the kernel ggml_map; x may be repeated.
void map(Work &work, Array x, Array y, const char *function, float a = 0, float b = 0);
// The same numbers in another type, dense if they were of another.
Array converted(Work &work, const Array &x, DLDataType type);
// Axes that lie evenly in all of these arrays of one shape become one, from the last on.
void merge(std::initializer_list<Array *> arrays);
// Calls do(x, y) with as many rows at once as lie evenly in both: kernels over rows take no others.
// They have the same axes but for the last one.
void overRows(const Array &x, const Array &y,
              const std::function<void(const Array &, const Array &)> &call);
// c = a b, of [.., .., M, K] and [.., .., K, N]; a may have more matrices than b, by a factor.
void multiply(Work &work, const Array &a, const Array &b, const Array &c, bool exact);
// A number for each row of x.
Array forRows(Work &work, const Array &x, DLDataType type = float32);
// The name of a quantised type's format in the kernels; null for others. The bytes of its rows.
const char *formatOf(ggml_type type);
Array bytesOf(const ggml_tensor *tensor);
// A tensor as numbers: quantised ones are decoded into scratch memory, in this type.
Array numbersOf(Work &work, const ggml_tensor *tensor, DLDataType type);

using Translation = void (*)(Work &, const ggml_tensor &);
// What language models seldom need: sums, sorts, convolutions, recurrences, gradients. Null for
// other operations.
Translation otherTranslation(ggml_op operation);

} // namespace ggml_sectile
