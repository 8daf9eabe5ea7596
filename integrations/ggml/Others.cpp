// What language models seldom need of ggml's operations, where Sectile's library has it: sums and
// sorts of rows, convolutions, recurrences, gradients.
#include "Calls.h"
#include <cmath>
#include <string>

namespace ggml_sectile {

namespace {

// Without its last axis, of one element.
Array withoutRows(const Array &x) {
  Array result = x;
  --result.rank;
  return result;
}

template <const char *function> void reduceRows(Work &work, const ggml_tensor &node) {
  overRows(arrayOf(node.src[0]), arrayOf(&node), [&](const Array &x, const Array &y) {
    const Array result = withoutRows(y);
    work.call("reduce", {&x, &result}, {text("op", function)});
  });
}

void sum(Work &work, const ggml_tensor &node) {
  require(ggml_is_contiguous(node.src[0]), "a sum of what is not dense");
  const Array x =
      dense(arrayOf(node.src[0]).type, {ggml_nelements(node.src[0])}, node.src[0]->data);
  const Array y = arrayOf(&node).inner(0);
  work.call("reduce", {&x, &y}, {text("op", "sum")});
}

void argMax(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]).inner(2), places = forRows(work, x, int64),
              y = arrayOf(&node).inner(1);
  work.call("reduce", {&x, &places}, {text("op", "argmax")});
  map(work, dense(int64, {1, 1, 1, x.shape[0]}, places.data),
      dense(y.type, {1, 1, 1, x.shape[0]}, y.data), "copy");
}

void cumulate(Work &work, const ggml_tensor &node) {
  overRows(arrayOf(node.src[0]), arrayOf(&node), [&](const Array &x, const Array &y) {
    work.call("scan", {&x, &y}, {text("op", "cumsum")});
  });
}

void argSort(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node), places = work.scratch(int64, x);
  overRows(x, places, [&](const Array &rows, const Array &found) {
    work.call("argsort", {&rows, &found},
              {integer("descending", whole(node, 0) == GGML_SORT_ORDER_DESC)});
  });
  map(work, places, y, "copy");
}

void topK(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node), places = work.scratch(int64, y);
  overRows(x, places, [&](const Array &rows, const Array &found) {
    const Array values = work.scratch(rows.type, found);
    work.call("topk", {&rows, &values, &found}, {integer("k", node.ne[0])});
  });
  map(work, places, y, "copy");
}

void concatenate(Work &work, const ggml_tensor &node) {
  const Array a = arrayOf(node.src[0]), b = arrayOf(node.src[1]), y = arrayOf(&node);
  const int axis = 3 - whole(node, 0);
  map(work, a, y.part(axis, 0, a.shape[axis]), "copy");
  map(work, b, y.part(axis, a.shape[axis], b.shape[axis]), "copy");
}

// dst[m, n] = sum over k of src0[m, k] src1[n, k].
void outerProduct(Work &work, const ggml_tensor &node) {
  const Array c = arrayOf(&node), b = numbersOf(work, node.src[0], bfloat16);
  require(isSame(c.type, float32), "a product of another type than f32");
  multiply(work, converted(work, arrayOf(node.src[1]), b.type).permuted({0, 1, 3, 2}), b, c, false);
}

void groupNorm(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  const int groups = whole(node, 0);
  require(isSame(x.type, float32) && x.shape[1] % groups == 0, "groups of other channels");
  const Array ones = work.filled(1, x.shape[1]), zeros = work.filled(0, x.shape[1]);
  const Array mean = work.scratch(float32, {x.shape[0], groups}),
              rstd = work.scratch(float32, {x.shape[0], groups});
  work.call("group_norm", {&x, &ones, &zeros, &y, &mean, &rstd},
            {integer("groups", groups), number("eps", parameter(node, 1))});
}

void l2Norm(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  work.call("ggml_l2_norm", {&x, &y}, {number("eps", parameter(node, 0))});
}

// Convolutions
// --------------------------------------------------------------------------------------------------------

void convolve(Work &work, const ggml_tensor &node) {
  const Array w = arrayOf(node.src[0]), x = converted(work, arrayOf(node.src[1]), w.type),
              y = arrayOf(&node);
  const bool byChannel = node.op == GGML_OP_CONV_2D_DW;
  const Array result = isSame(y.type, w.type) ? y : work.scratch(w.type, y);
  work.call("conv2d", {&x, &w, nullptr, &result},
            {integer("stride_w", whole(node, 0)), integer("stride_h", whole(node, 1)),
             integer("pad_w", whole(node, 2)), integer("pad_h", whole(node, 3)),
             integer("dilation_w", whole(node, 4)), integer("dilation_h", whole(node, 5)),
             integer("groups", byChannel ? x.shape[1] : 1)});
  if (!isSame(result.type, y.type))
    map(work, result, y, "copy");
}

void causalConvolution(Work &work, const ggml_tensor &node) {
  const Array both = arrayOf(node.src[0]).inner(3), w = arrayOf(node.src[1]).inner(2),
              y = arrayOf(&node).inner(3);
  // Each sequence has the inputs of before in front.
  const int64_t before = w.shape[1] - 1, steps = both.shape[2] - before;
  const Array state = both.part(2, 0, before), x = both.part(2, before, steps).permuted({0, 2, 1});
  const Array after = work.scratch(float32, state);
  work.call("causal_conv1d", {&x, &w, nullptr, &state, nullptr, &y, &after},
            {text("activation", "none")});
}

// Recurrences
// ---------------------------------------------------------------------------------------------------------

// The result of a node, which has outputs [B, T, H, V] and behind them states [N, H, ., .].
struct Outputs {
  Array o, states;
  Outputs(const ggml_tensor &node, std::initializer_list<int64_t> shape,
          std::initializer_list<int64_t> states)
      : o(dense(float32, shape, node.data)), states(dense(float32, states, nullptr)) {
    require(node.type == GGML_TYPE_F32 && ggml_is_contiguous(&node) &&
                o.elements() + this->states.elements() == ggml_nelements(&node),
            "outputs and states that lie otherwise");
    this->states.data = static_cast<float *>(node.data) + o.elements();
  }
};

Array logarithm(Work &work, const Array &x) {
  const Array y = work.scratch(float32, x);
  map(work, x, y, "log");
  return y;
}

void gatedDeltaNet(Work &work, const ggml_tensor &node) {
  const Array q = arrayOf(node.src[0]), k = arrayOf(node.src[1]), v = arrayOf(node.src[2]),
              g = arrayOf(node.src[3]), beta = withoutRows(arrayOf(node.src[4])),
              state = arrayOf(node.src[5]);
  require(whole(node, 0) == 1, "states of earlier steps");
  require(q.sameShape(k) && q.shape[0] == v.shape[0] && v.shape[2] % q.shape[2] == 0,
          "keys that sequences share");
  const bool byChannel = g.shape[3] != 1;
  const int64_t heads = v.shape[2],
                turn = q.shape[2]; // heads of values take those of keys by turns
  const Outputs out(node, {v.shape[0], v.shape[1], heads, v.shape[3]},
                    {v.shape[0], heads, v.shape[3], v.shape[3]});
  for (int64_t first = 0; first < heads; first += turn) {
    const auto part = [&](const Array &x, int axis) { return x.part(axis, first, turn); };
    const Array values = part(v, 2), rates = part(beta, 2),
                gate = part(byChannel ? g : withoutRows(g), 2), before = part(state, 1),
                o = part(out.o, 2), after = part(out.states, 1);
    work.call(byChannel ? "kda" : "delta_rule",
              {&q, &k, &values, &rates, &gate, nullptr, nullptr, nullptr, nullptr, &before, nullptr,
               &o, &after},
              {number("scale", 1 / std::sqrt(static_cast<double>(v.shape[3]))),
               text("state_layout", "vk")});
  }
}

void stateSpaceScan(Work &work, const ggml_tensor &node) {
  const Array states = arrayOf(node.src[0]), x = arrayOf(node.src[1]),
              dt = arrayOf(node.src[2]).inner(3), b = arrayOf(node.src[4]),
              c = arrayOf(node.src[5]), rows = arrayOf(node.src[6]);
  require(whole(node, 0) == 1 && node.src[3]->ne[0] == 1,
          "decays of Mamba-1, or states of earlier steps");
  require(ggml_is_contiguous(node.src[0]) && ggml_is_contiguous(node.src[3]),
          "states that lie otherwise");
  const int64_t sequences = x.shape[0], heads = x.shape[2], width = x.shape[3],
                depth = states.shape[3];
  // The decays' exponents, -e^A_log in Sectile.
  const Array a = dense(float32, {1, 1, 1, heads}, node.src[3]->data),
              minus = work.scratch(float32, a);
  map(work, a, minus, "neg");
  const Array exponents = logarithm(work, minus).inner(1);
  // Each sequence's state is a row of a pool.
  const Array pool = dense(float32, {1, 1, states.shape[0], heads * width * depth}, states.data);
  const Array begin = work.scratch(float32, {1, 1, sequences, heads * width * depth}),
              numbers = rows.at(0);
  work.call("ggml_get_rows", {&pool, &numbers, &begin, &begin}, {text("format", "plain")});
  const Array initial = dense(float32, {sequences, heads, width, depth}, begin.data);
  const Outputs out(node, {sequences, x.shape[1], heads, width}, {sequences, heads, width, depth});
  work.call("delta_rule",
            {&c, &b, &x, nullptr, &dt, &exponents, nullptr, nullptr, nullptr, &initial, nullptr,
             &out.o, &out.states},
            {text("rule", "mamba2"), text("state_layout", "vk")});
}

// Gradients
// -----------------------------------------------------------------------------------------------------------

void siluBack(Work &work, const ggml_tensor &node) {
  Array dy = arrayOf(node.src[0]), x = arrayOf(node.src[1]), dx = arrayOf(&node);
  merge({&x, &dy, &dx});
  const Array a = x.inner(3), b = dy.inner(3), c = dx.inner(3);
  work.call("activation_backward", {&a, &b, &c}, {text("kind", "silu")});
}

void softMaxBack(Work &work, const ggml_tensor &node) {
  require(ggml_is_contiguous(node.src[0]) && ggml_is_contiguous(node.src[1]) &&
              parameter(node, 1) == 0,
          "rows that lie otherwise");
  const Array dy = arrayOf(node.src[0]), y = arrayOf(node.src[1]), dx = arrayOf(&node);
  work.call("softmax_backward", {&y, &dy, &dx});
  if (const float scale = parameter(node, 0); scale != 1)
    map(work, dx, dx, "scale", scale);
}

void rmsNormBack(Work &work, const ggml_tensor &node) {
  require(ggml_is_contiguous(node.src[0]) && ggml_is_contiguous(node.src[1]),
          "rows that lie otherwise");
  const Array dy = arrayOf(node.src[0]), x = arrayOf(node.src[1]), dx = arrayOf(&node);
  const Array y = work.scratch(x.type, x), rstd = forRows(work, x);
  work.call("rms_norm", {&x, nullptr, nullptr, &y, nullptr, &rstd},
            {number("eps", parameter(node, 0))});
  work.call("rms_norm_backward", {&x, nullptr, &rstd, &dy, nullptr, nullptr, &dx, nullptr});
}

constexpr char sumName[] = "sum", meanName[] = "mean";

} // namespace

Translation otherTranslation(ggml_op operation) {
  switch (operation) {
  case GGML_OP_SUM:
    return sum;
  case GGML_OP_SUM_ROWS:
    return reduceRows<sumName>;
  case GGML_OP_MEAN:
    return reduceRows<meanName>;
  case GGML_OP_ARGMAX:
    return argMax;
  case GGML_OP_CUMSUM:
    return cumulate;
  case GGML_OP_ARGSORT:
    return argSort;
  case GGML_OP_TOP_K:
    return topK;
  case GGML_OP_CONCAT:
    return concatenate;
  case GGML_OP_OUT_PROD:
    return outerProduct;
  case GGML_OP_GROUP_NORM:
    return groupNorm;
  case GGML_OP_CONV_2D:
  case GGML_OP_CONV_2D_DW:
    return convolve;
  case GGML_OP_SSM_CONV:
    return causalConvolution;
  case GGML_OP_SSM_SCAN:
    return stateSpaceScan;
  case GGML_OP_L2_NORM:
    return l2Norm;
  case GGML_OP_GATED_DELTA_NET:
    return gatedDeltaNet;
  case GGML_OP_SILU_BACK:
    return siluBack;
  case GGML_OP_SOFT_MAX_BACK:
    return softMaxBack;
  case GGML_OP_RMS_NORM_BACK:
    return rmsNormBack;
  default:
    return nullptr;
  }
}

} // namespace ggml_sectile
