// A table of functions that say a node of ggml's in calls of Sectile's operations. The same
// function checks and runs: a check asks sectile_op_infer() whether each call can be, a run makes
// the calls.
#include "Operations.h"
#include "Calls.h"
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <optional>
#include <string>
#include <unordered_map>

using namespace ggml_sectile;

namespace {

void copy(Work &work, const ggml_tensor &node) {
  Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  if (!x.sameShape(y)) {
    // One of them dense: it can have the other's shape.
    const bool denseX = ggml_is_contiguous(node.src[0]);
    require(denseX || ggml_is_contiguous(&node),
            "a copy between other shapes, neither of them dense");
    if (denseX)
      x = dense(x.type, y, x.data);
    else
      y = dense(y.type, x, y.data);
  }
  map(work, x, y, "copy");
}

void unary(Work &work, const ggml_tensor &node) {
  static const std::unordered_map<int, const char *> inLibrary = {
      {GGML_UNARY_OP_GELU, "gelu_tanh"},   {GGML_UNARY_OP_GELU_ERF, "gelu"},
      {GGML_UNARY_OP_SILU, "silu"},        {GGML_UNARY_OP_RELU, "relu"},
      {GGML_UNARY_OP_TANH, "tanh"},        {GGML_UNARY_OP_SIGMOID, "sigmoid"},
      {GGML_UNARY_OP_SOFTPLUS, "softplus"}};
  const ggml_unary_op which = ggml_get_unary_op(&node);
  Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  if (const auto found = inLibrary.find(which);
      found != inLibrary.end() && isSame(x.type, y.type)) {
    merge({&x, &y});
    for (int64_t i = 0; i < x.shape[0]; ++i) {
      const Array from = x.at(i), to = y.at(i);
      work.call("activation", {&from, &to}, {text("kind", found->second)});
    }
    return;
  }
  std::string name = ggml_unary_op_name(which);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  map(work, x, y, name.c_str());
}

template <const char *function, int first, int second>
void mapped(Work &work, const ggml_tensor &node) {
  map(work, arrayOf(node.src[0]), arrayOf(&node), function, first < 0 ? 0 : parameter(node, first),
      second < 0 ? 0 : parameter(node, second));
}

void clamp(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  const float low = parameter(node, 0), high = parameter(node, 1);
  if (std::isinf(high)) // options are finite
    return map(work, x, y, "at_least", low);
  if (std::isinf(low))
    return map(work, x, y, "at_most", high);
  map(work, x, y, "clamp", low, high);
}

void repeat(Work &work, const ggml_tensor &node) {
  map(work, arrayOf(node.src[0]), arrayOf(&node), "copy");
}

// z = f(x, y), with y repeated.
void pair(Work &work, Array x, Array y, Array z, const char *function, float a = 0, float b = 0) {
  bool stretches = true;
  require(x.sameShape(z), "the first operand is repeated");
  for (int i = 0; i < 4; ++i) {
    stretches &= y.shape[i] == z.shape[i] || y.shape[i] == 1;
    require(y.shape[i] && z.shape[i] % y.shape[i] == 0,
            "an extent is no multiple of the other operand's");
  }
  if (stretches) { // a step of 0 repeats an axis of one element
    for (int i = 0; i < 4; ++i)
      if (y.shape[i] != z.shape[i]) {
        y.shape[i] = z.shape[i];
        y.strides[i] = 0;
      }
    merge({&x, &y, &z});
    if (!std::strcmp(function, "add") && isSame(x.type, y.type) && isSame(x.type, z.type)) {
      for (int64_t i = 0; i < z.shape[0]; ++i) {
        const Array left = x.at(i), right = y.at(i), sum = z.at(i);
        work.call("vector_add", {&left, &right, &sum});
      }
      return;
    }
  }
  work.call("ggml_pair", {&x, &y, &z}, {text("kind", function), number("a", a), number("b", b)});
}

template <const char *function> void paired(Work &work, const ggml_tensor &node) {
  pair(work, arrayOf(node.src[0]), arrayOf(node.src[1]), arrayOf(&node), function);
}

void gated(Work &work, const ggml_tensor &node) {
  Array gate = arrayOf(node.src[0]), y = arrayOf(&node), up = gate;
  if (node.src[1]) {
    up = arrayOf(node.src[1]);
  } else {
    const int64_t half = gate.shape[3] / 2;
    const bool swapped = node.op_params[1];
    up = gate.part(3, swapped ? 0 : half, half);
    gate = gate.part(3, swapped ? half : 0, half);
  }
  require(gate.sameShape(y) && up.sameShape(y), "a gate of another shape");
  const ggml_glu_op which = ggml_get_glu_op(&node);
  const auto library = [&](const char *name, std::initializer_list<sectile_option> options) {
    merge({&gate, &up, &y});
    for (int64_t i = 0; i < y.shape[0]; ++i) {
      const Array a = gate.at(i), b = up.at(i), c = y.at(i);
      work.call(name, {&a, &b, &c}, options);
    }
  };
  switch (which) {
  case GGML_GLU_OP_SWIGLU:
    return library("swiglu", {});
  case GGML_GLU_OP_GEGLU:
    return library("geglu", {text("approximate", "tanh")});
  case GGML_GLU_OP_GEGLU_ERF:
    return library("geglu", {});
  case GGML_GLU_OP_REGLU:
    return pair(work, gate, up, y, "reglu");
  case GGML_GLU_OP_GEGLU_QUICK:
    return pair(work, gate, up, y, "geglu_quick");
  case GGML_GLU_OP_SWIGLU_OAI:
    return pair(work, gate, up, y, "swiglu_oai", parameter(node, 2), parameter(node, 3));
  default:
    throw Refused("another gate");
  }
}

void rmsNorm(Work &work, const ggml_tensor &node) {
  overRows(arrayOf(node.src[0]), arrayOf(&node), [&](const Array &x, const Array &y) {
    const Array rstd = forRows(work, x);
    work.call("rms_norm", {&x, nullptr, nullptr, &y, nullptr, &rstd},
              {number("eps", parameter(node, 0))});
  });
}

void layerNorm(Work &work, const ggml_tensor &node) {
  overRows(arrayOf(node.src[0]), arrayOf(&node), [&](const Array &x, const Array &y) {
    const Array mean = forRows(work, x), rstd = forRows(work, x);
    work.call("layer_norm", {&x, nullptr, nullptr, &y, &mean, &rstd},
              {number("eps", parameter(node, 0))});
  });
}

// dst[i, n, m] = sum over k of src0[i', m, k] src1[i, n, k], with as many i for each i' as src1 has
// more matrices. Both are taken in the type of src0.
void matMul(Work &work, const ggml_tensor &node) {
  const Array b = numbersOf(work, node.src[0], bfloat16),
              a = converted(work, arrayOf(node.src[1]), b.type), c = arrayOf(&node);
  require(isSame(c.type, float32), "a product of another type than f32");
  multiply(work, a, b.permuted({0, 1, 3, 2}), c, whole(node, 0) == GGML_PREC_F32);
}

// dst[t, j] = src0[ids[t, j]] src1[t, j or 0], by the library's experts: rows sorted by expert,
// multiplied, put back.
void matMulId(Work &work, const ggml_tensor &node) {
  const Array w = numbersOf(work, node.src[0], bfloat16).inner(3), ids = arrayOf(node.src[2]);
  Array x = arrayOf(node.src[1]), y = arrayOf(&node);
  const int64_t tokens = ids.shape[2], choices = ids.shape[3], all = tokens * choices,
                experts = w.shape[0], width = w.shape[1];
  require(x.shape[2] == 1 || x.shape[2] == choices, "rows that several choices share, but not all");
  require(isSame(y.type, float32) && ggml_is_contiguous(&node), "a product that lies otherwise");
  const bool shared = x.shape[2] == 1; // a token has one row, or one for each choice
  if (!ggml_is_contiguous(node.src[1]) || !isSame(x.type, w.type)) {
    const Array from = x;
    x = work.scratch(w.type, from);
    map(work, from, x, "copy");
  }
  const Array rows = dense(w.type, {shared ? tokens : all, x.shape[3]}, x.data);
  const Array copied = work.scratch(int32, ids);
  map(work, ids, copied, "copy");
  const Array chosen = dense(int32, {shared ? tokens : all, shared ? choices : 1}, copied.data);
  const Array counts = work.scratch(int32, {experts}), offsets = work.scratch(int32, {experts + 1}),
              order = work.scratch(int32, {all}), places = work.scratch(int32, {all}),
              inverse = work.scratch(int32, chosen);
  work.call("moe_permute", {&chosen, &counts, &offsets, &order, &places, &inverse},
            {integer("count", experts)});
  const Array matrices = w.permuted({0, 2, 1}), sorted = work.scratch(w.type, {all, width});
  work.call("moe_up", {&rows, &matrices, &counts, &places, nullptr, nullptr, nullptr, &sorted},
            {text("gate", "none"), text("activation", "none")});
  const Array table = dense(w.type, {1, 1, all, width}, sorted.data),
              back = dense(int32, {1, 1, all}, inverse.data),
              result = dense(float32, {1, 1, all, width}, y.data);
  work.call("ggml_get_rows", {&table, &back, &result, &result}, {text("format", "plain")});
}

// The bases of ALiBi's slopes for so many heads.
struct Slopes {
  int64_t heads; // how many heads have the first base
  double base, between;

  Slopes(int64_t all, double most) : heads(1) {
    while (heads * 2 <= all)
      heads *= 2;
    base = std::exp2(-most / static_cast<double>(heads));
    between = std::exp2(-most / 2 / static_cast<double>(heads));
  }
};

void softMax(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  const float scale = parameter(node, 0), most = parameter(node, 1);
  if (!node.src[1] && !node.src[2] && scale == 1)
    return overRows(
        x, y, [&](const Array &from, const Array &to) { work.call("softmax", {&from, &to}); });
  std::optional<Array> mask, sinks;
  if (node.src[1]) {
    mask = arrayOf(node.src[1]).part(2, 0, x.shape[2]); // it may have more rows
    require(x.shape[0] % mask->shape[0] == 0 && x.shape[1] % mask->shape[1] == 0,
            "a mask for other heads");
  }
  if (node.src[2])
    sinks = arrayOf(node.src[2]).at(0).at(0).at(0);
  const Slopes slopes(x.shape[1], most);
  work.call("ggml_softmax", {&x, mask ? &*mask : nullptr, sinks ? &*sinks : nullptr, &y},
            {number("scale", scale), number("slope", slopes.base),
             number("slope_between", slopes.between),
             integer("heads", mask && most > 0 ? slopes.heads : 0)});
}

void flashAttention(Work &work, const ggml_tensor &node) {
  // The keys' type is that of all products; queries of llama.cpp are f32 beside keys of f16.
  Array k = numbersOf(work, node.src[1], float16);
  const Array q = converted(work, arrayOf(node.src[0]), k.type),
              v = converted(work, numbersOf(work, node.src[2], float16), k.type);
  const Array result = arrayOf(&node).permuted({0, 2, 1, 3});
  const float most = parameter(node, 1);
  std::optional<Array> bias, sinks;
  if (node.src[3]) {
    bias = converted(work, arrayOf(node.src[3]).part(2, 0, q.shape[2]), k.type);
    if (most > 0) {
      const Slopes slopes(q.shape[1], most);
      Array shape = *bias;
      shape.shape[1] = q.shape[1];
      const Array sloped = work.scratch(k.type, shape);
      work.call("ggml_alibi", {&*bias, &sloped, &sloped},
                {number("slope", slopes.base), number("slope_between", slopes.between),
                 integer("heads", slopes.heads)});
      bias = sloped;
    }
  }
  if (node.src[4]) {
    sinks = arrayOf(node.src[4]).at(0).at(0).permuted({1, 0}); // a score for each head
    sinks->rank = 2;
  }
  const Array o = isSame(result.type, k.type) ? result : work.scratch(k.type, result),
              lse = forRows(work, result);
  work.call(
      "attention",
      {&q, &k, &v, bias ? &*bias : nullptr, nullptr, sinks ? &*sinks : nullptr, nullptr, &o, &lse},
      {number("scale", parameter(node, 0)), number("softcap", parameter(node, 2))});
  if (!isSame(o.type, result.type))
    map(work, o, result, "copy");
}

// A pair's number at which its wavelength is so many turns over the original context, as in YaRN.
double pairOfTurns(int dims, int context, double turns, double base) {
  return dims * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

template <bool isForward> void rope(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node),
              positions = arrayOf(node.src[1]).at(0).at(0).at(0);
  std::optional<Array> factors;
  if (node.src[2])
    factors = arrayOf(node.src[2]).at(0).at(0).at(0);
  const int32_t *parameters = node.op_params;
  const int dims = parameters[1], mode = parameters[2], context = parameters[4];
  const double base = parameter(node, 5), scale = parameter(node, 6), mix = parameter(node, 7);
  double magnitude = parameter(node, 8), low = 0, high = 0;
  if (mix != 0) {
    // Infinite without a context or turns; an option is finite, and this is as far as any pair.
    const auto pairOf = [&](double turns) {
      return std::clamp(pairOfTurns(dims, context, turns, base), -1e6, 1e6);
    };
    low = std::max(0.0, std::floor(pairOf(parameter(node, 9))));
    high = std::min(dims - 1.0, std::ceil(pairOf(parameter(node, 10))));
    magnitude *= 1 + 0.1 * std::log(1 / scale);
  }
  const char *kind = mode == GGML_ROPE_TYPE_NORMAL   ? "normal"
                     : mode == GGML_ROPE_TYPE_NEOX   ? "neox"
                     : mode == GGML_ROPE_TYPE_MROPE  ? "mrope"
                     : mode == GGML_ROPE_TYPE_IMROPE ? "imrope"
                     : mode == GGML_ROPE_TYPE_VISION ? "vision"
                                                     : nullptr;
  require(kind, "another kind of rotation");
  work.call("ggml_rope", {&x, &positions, factors ? &*factors : nullptr, &y},
            {text("kind", kind), integer("dims", dims), integer("first", parameters[15]),
             integer("time", parameters[11]), integer("height", parameters[12]),
             integer("width", parameters[13]), integer("other", parameters[14]),
             number("base", base), number("scale", scale), number("low", low), number("high", high),
             number("mix", mix), number("magnitude", magnitude),
             number("sign", isForward ? 1 : -1)});
}

void getRows(Work &work, const ggml_tensor &node) {
  const char *format = formatOf(node.src[0]->type);
  const Array table = format ? bytesOf(node.src[0]) : arrayOf(node.src[0]),
              indices = arrayOf(node.src[1]).at(0), y = arrayOf(&node);
  if (isSame(table.type, y.type) && isSame(table.type, float32) &&
      table.shape[0] * table.shape[1] == 1) {
    const Array rows = table.at(0).at(0), numbers = indices.at(0).at(0), result = y.at(0).at(0);
    return work.call("embedding", {&rows, &numbers, &result});
  }
  work.call("ggml_get_rows", {&table, &indices, &y, &y},
            {text("format", format ? format : "plain")});
}

void setRows(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), indices = arrayOf(node.src[1]).at(0), y = arrayOf(&node);
  require(indices.shape[0] && indices.shape[1] && x.shape[0] % indices.shape[0] == 0 &&
              x.shape[1] % indices.shape[1] == 0,
          "numbers for other rows");
  work.call("ggml_set_rows", {&x, &indices, &y, &y});
}

constexpr char scaleName[] = "scale", leakyName[] = "leaky_relu", sqrName[] = "sqr",
               sqrtName[] = "sqrt", logName[] = "log", sinName[] = "sin", cosName[] = "cos",
               addName[] = "add", subName[] = "sub", mulName[] = "mul", divName[] = "div";

void nothing(Work &, const ggml_tensor &) {}

Translation translationOf(ggml_op operation) {
  switch (operation) {
  case GGML_OP_NONE:
  case GGML_OP_RESHAPE:
  case GGML_OP_VIEW:
  case GGML_OP_PERMUTE:
  case GGML_OP_TRANSPOSE:
    return nothing;
  case GGML_OP_DUP:
  case GGML_OP_CONT:
  case GGML_OP_CPY:
    return copy;
  case GGML_OP_REPEAT:
    return repeat;
  case GGML_OP_SCALE:
    return mapped<scaleName, 0, 1>;
  case GGML_OP_CLAMP:
    return clamp;
  case GGML_OP_LEAKY_RELU:
    return mapped<leakyName, 0, -1>;
  case GGML_OP_SQR:
    return mapped<sqrName, -1, -1>;
  case GGML_OP_SQRT:
    return mapped<sqrtName, -1, -1>;
  case GGML_OP_LOG:
    return mapped<logName, -1, -1>;
  case GGML_OP_SIN:
    return mapped<sinName, -1, -1>;
  case GGML_OP_COS:
    return mapped<cosName, -1, -1>;
  case GGML_OP_UNARY:
    return unary;
  case GGML_OP_ADD:
    return paired<addName>;
  case GGML_OP_SUB:
    return paired<subName>;
  case GGML_OP_MUL:
    return paired<mulName>;
  case GGML_OP_DIV:
    return paired<divName>;
  case GGML_OP_GLU:
    return gated;
  case GGML_OP_NORM:
    return layerNorm;
  case GGML_OP_RMS_NORM:
    return rmsNorm;
  case GGML_OP_MUL_MAT:
    return matMul;
  case GGML_OP_MUL_MAT_ID:
    return matMulId;
  case GGML_OP_SOFT_MAX:
    return softMax;
  case GGML_OP_FLASH_ATTN_EXT:
    return flashAttention;
  case GGML_OP_ROPE:
    return rope<true>;
  case GGML_OP_ROPE_BACK:
    return rope<false>;
  case GGML_OP_GET_ROWS:
    return getRows;
  case GGML_OP_SET_ROWS:
    return setRows;
  default:
    return otherTranslation(operation);
  }
}

} // namespace

bool ggml_sectile::supports(const Place &place, const ggml_tensor &node) {
  const Translation translation = translationOf(node.op);
  if (!translation)
    return false;
  try {
    Work work({.device = place.device, .stream = nullptr, .dlpack = place.dlpack});
    translation(work, node);
    return true;
  } catch (const std::exception &error) {
    // What a model's layers run into is of interest once; a scheduler asks again and again.
    static const bool explains = std::getenv("SECTILE_GGML_EXPLAIN");
    if (explains)
      std::fprintf(stderr, "Sectile: %s is refused: %s\n", ggml_op_desc(&node), error.what());
    return false;
  }
}

void ggml_sectile::run(const Place &place, const ggml_tensor &node) {
  if (ggml_is_empty(&node))
    return;
  Work work(place);
  translationOf(node.op)(work, node);
}
