// linear_cross_entropy: the cross entropy of logits = scale (x w^T + bias) and its gradients,
// without the logits in memory. With l = cap tanh(logits / cap), or the logits themselves, the loss
// and its gradient dl are those of cross_entropy (CrossEntropy.cpp), and
//   dlogits = dl scale (1 - (l / cap)^2), dx = dlogits w, dw = dlogits^T x, dbias = sums of
//   dlogits.
// Rows go in chunks (as in Liger Kernel, Hsu et al., arXiv 2410.10989): a product leaves the logits
// of a chunk in scratch memory, one program for each row makes their gradient of them in place, and
// two products take it from there. The logit of the target is a dot product in f32 of its own,
// which takes the place of the rounded one; the bias is added in f32. A mean over no targets is 0,
// or NaN as in PyTorch. Refused: what cross_entropy refuses, a softcap below 0, gradients of tokens
// for a loss of one number.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Slice.h"
#include "kernels/calls/Use.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/ReferenceProducts.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/Losses.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sectile/approximate.h>
#include <sectile/error.h>

using namespace sectile;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct LinearLossConfig {
  int block = 4096, warps = 8;
  bool smooth = false, capped = false, gradients = true;
  bool shared = false, weighted = false; // gradients are of a mean; tokens have theirs
  bool biased = false;
  bool mean = false, class_weights = false, argmax = false;
};

template <class T, class Target> struct LinearLossArguments {
  View<const T, 2> x, w;
  View<const Target, 1> targets;
  View<const T, 1> bias;
  View<T, 2> logits; // without the bias; and then their gradient
  View<const float, 1> dloss, share, class_weights, sums;
  View<float, 1> loss, lse, logprob;
  View<std::int32_t, 1> argmax;
  Tile<std::int64_t> ignore_index;
  Float label_smoothing, lse_square, softcap, scale;
};

template <class T, class Target>
Kernel linearLoss{
    "linear_cross_entropy",
    [](const LinearLossArguments<T, Target> &a, const LinearLossConfig &config) {
      const int n = config.block;
      const Int row = program_id(0), classes = a.logits.extent(1), blocks = cdiv(classes, n);
      const auto target = cast<std::int64_t>(load(a.targets.ptr() + row * a.targets.stride(0)));
      const Bool counts = target != a.ignore_index, known = target >= 0 && target < classes;
      device_assert(known || !counts, "a target is a class or ignore_index");
      const auto capped = [&](const auto &x) {
        return config.capped ? a.softcap * tanh(x / a.softcap) : x;
      };
      // Of the target, from the operands: in f32.
      const auto place = where(known, target, std::int64_t(0));
      auto products = zeros<float>(n);
      for (auto step : range(0, cdiv(a.x.extent(1), n)))
        products += cast<float>(a.x.at(row).tile(n).load(step)) *
                    cast<float>(a.w.at(cast<Index>(place)).tile(n).load(step));
      Float product = sum(products, 0);
      if (config.biased)
        product = product + cast<float>(load(a.bias.ptr() + cast<Index>(place) * a.bias.stride(0)));
      const Float own = capped(a.scale * product);

      const auto logits = a.logits.at(row).tile(n).padding(-infinity);
      Float largest = -infinity, total = 0.0f, plain = 0.0f;
      LargestPlace best{full<float>(-infinity), zeros<std::int32_t>()};
      const auto inside = [&](const Int &block) { return block * n + arange(0, n) < classes; };
      const auto isOwn = [&](const Int &block) {
        return cast<std::int64_t>(block * n + arange(0, n)) == target;
      };
      // With the target's in f32, so that no loss is below 0.
      const auto take = [&](const Int &block) {
        auto x = cast<float>(logits.load(block));
        if (config.biased)
          x = x + a.scale * cast<float>(a.bias.tile(n).load(block));
        if (config.capped)
          x = where(inside(block), capped(x), -infinity);
        return where(isOwn(block), own, x);
      };
      for (auto block : range(0, blocks)) {
        const auto x = take(block);
        const Float before = largest;
        largest = maximum(largest, max(x, 0));
        const Float base = where(largest == -infinity, 0.0f, largest);
        total = total * fast_exp(before - base) + sum(fast_exp(x - base), 0);
        if (config.smooth) {
          auto present = where(inside(block), x, 0.0f);
          if (config.class_weights)
            present = present * a.class_weights.tile(n).load(block);
          plain += sum(present, 0);
        }
        if (config.argmax)
          best.take(x, 0, block * n);
      }
      const Float lse = where(largest == -infinity, 0.0f, largest) + log(total);
      Float value = lse - own;
      const auto put = [&](const View<float, 1> &to, const Float &number) {
        store(to.ptr() + row * to.stride(0), number);
      };
      put(a.logprob, where(counts, -value, 0.0f));
      const Float part = a.label_smoothing / cast<float>(classes);
      Float square = a.lse_square, ofTarget = 1.0f - a.label_smoothing, all = 1.0f;
      if (config.class_weights) {
        const ClassSums sums(a.sums);
        const Float weight =
            load(a.class_weights.ptr() + cast<Index>(place) * a.class_weights.stride(0));
        value = weight * value;
        if (config.smooth)
          value = (1.0f - a.label_smoothing) * value + part * (sums.ofClasses * lse - plain);
        ofTarget = ofTarget * weight;
        all = ofTarget + part * sums.ofClasses;
        if (config.mean)
          square = sums.squareInMean(square);
      } else if (config.smooth) {
        value = (1.0f - a.label_smoothing) * value +
                a.label_smoothing * (lse - plain / cast<float>(classes));
      }
      value += square * lse * lse;
      put(a.loss, where(counts, value, 0.0f));
      put(a.lse, lse);
      if (config.argmax)
        store(a.argmax.ptr() + row * a.argmax.stride(0), best.place);
      if (!config.gradients)
        return;

      Float gradient = a.scale;
      if (config.weighted)
        gradient = gradient * load(a.dloss.ptr() + row * a.dloss.stride(0));
      if (config.shared)
        gradient = config.class_weights ? gradient / ClassSums(a.sums).ofTargets
                                        : gradient * load(a.share.ptr());
      for (auto block : range(0, blocks)) {
        const auto x = take(block);
        const auto weight = fast_exp(x - lse) * (all + 2.0f * square * lse);
        auto result = weight - where(isOwn(block), ofTarget, 0.0f);
        if (config.class_weights && config.smooth)
          result = result - part * a.class_weights.tile(n).load(block);
        else
          result = result - part;
        if (config.capped) {
          const auto part = x / a.softcap;
          result = result * (1.0f - part * part);
        }
        a.logits.at(row).tile(n).store(block, where(counts, result * gradient, 0.0f));
      }
    }};

struct BiasConfig {
  int rows = 32, columns = 64, warps = 4; // of gradients, added at once
  bool adds = false;                      // to what earlier chunks gave
};

template <class T, class Out>
Kernel biasGradient{"linear_cross_entropy_bias",
                    [](View<const T, 2> gradients, View<Out, 1> dbias, const BiasConfig &config) {
                      const Int column = program_id(0);
                      const auto from = gradients.tile(config.rows, config.columns);
                      auto total = zeros<float>(config.rows, config.columns);
                      for (auto step : range(0, cdiv(gradients.extent(0), config.rows)))
                        total += cast<float>(from.load(step, column));
                      auto sums = sum(total, 0);
                      const auto to = dbias.tile(config.columns);
                      if (config.adds)
                        sums += cast<float>(to.load(column));
                      to.store(column, sums);
                    }};

// Each of the three products as a call of matmul.
struct Product {
  const char *prefix, *doc; // of the fields of its configuration
  KernelOptions options;
  std::map<std::string, std::int64_t> extents;
  std::vector<std::string> with = {};
};
std::string textOf(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}
std::vector<Product> productsOf(const Invocation &call, std::int64_t rows) {
  const std::int64_t v = call.extent("V"), h = call.extent("H");
  const std::string precision = call.options.choice("precision"),
                    out = call.options.choice("accumulate");
  return {{"logits_",
           "of the product that makes logits: ",
           {{"trans_b", "true"},
            {"alpha", textOf(call.options.number("scale"))},
            {"precision", precision}},
           {{"M", rows}, {"N", v}, {"K", h}}},
          {"dx_",
           "of the product that makes dx: ",
           {{"trans_b", "false"}, {"precision", precision}},
           {{"M", rows}, {"N", h}, {"K", v}}},
          {"dw_",
           "of the product that makes dw: ",
           {{"trans_a", "true"}, {"trans_b", "false"}, {"precision", precision}, {"out", out}},
           {{"M", v}, {"N", h}, {"K", rows}},
           {"residual"}}};
}
Config configOf(const Use &use, const std::string &prefix) {
  Config result;
  for (const auto &[name, value] : use.config)
    if (name.starts_with(prefix))
      result[name.substr(prefix.size())] = value;
  return result;
}

// Rows whose logits take most of a gibibyte.
std::int64_t chunkFor(const Invocation &call) {
  constexpr std::int64_t bytes = std::int64_t(1000) << 20, step = 128;
  const std::int64_t row = std::max<std::int64_t>(
      call.extent("V") * static_cast<std::int64_t>(size_of(call.dtype("x"))), 1);
  return std::clamp<std::int64_t>(bytes / row / step * step, step, 1 << 20);
}

// An argument, whatever its elements are.
AnyTensor matrixOf(const Use &use, const char *name) {
  AnyTensor result;
  for_dtype<half, bfloat16, float>(use.call.dtype(name),
                                   [&]<class T>(T) { result = use.tensor<T, 2>(name); });
  return result;
}

void launch(Use &use) {
  const Invocation &call = use.call;
  const std::int64_t n = use.extent("N"), v = use.extent("V");
  const std::string &reduction = call.options.choice("reduction");
  auto config =
      use.config_as(LinearLossConfig{.smooth = call.options.number("label_smoothing") != 0,
                                     .capped = call.options.number("softcap") != 0,
                                     .gradients = call.options.flag("gradients"),
                                     .shared = reduction == "mean",
                                     .weighted = use.has("dloss"),
                                     .biased = use.has("bias")});
  config.shared = config.shared && config.gradients;
  config.class_weights = use.has("class_weights");
  config.argmax = call.options.flag("argmax");
  config.mean = config.class_weights && reduction == "mean";
  const MeanConfig mean{.mean = reduction == "mean",
                        .ofNoneIsZero = call.options.choice("empty") == "zero",
                        .weighted = config.class_weights};
  const DType dtype = call.dtype("x");
  const AnyTensor x = matrixOf(use, "x"), w = matrixOf(use, "w");
  const auto loss = use.elements<float>("loss"), lse = use.tensor<float, 1>("lse"),
             logprob = use.tensor<float, 1>("logprob"), dloss = use.tensor<float, 1>("dloss");
  const auto argmax = use.tensor<std::int32_t, 1>("argmax");
  const auto losses = reduction == "none" ? loss : use.workspace<float, 1>({n});
  auto share = noTensor<float, 1>();
  if (config.shared && !config.class_weights) {
    share = use.workspace<float, 1>({1});
    forTargets(call, [&]<class Target>(Target) {
      use(crossEntropyShare<Target>, 1, countConfig(mean.ofNoneIsZero), {{"share", share}});
    });
  }
  const auto sums = classSums(use);
  const std::int64_t chunk =
      std::max<std::int64_t>(std::min<std::int64_t>(use.field("chunk"), n), 1);
  AnyTensor scratch;
  for_dtype<half, bfloat16, float>(dtype,
                                   [&]<class T>(T) { scratch = use.workspace<T, 2>({chunk, v}); });
  const auto ofProduct = [&](const Product &product, const NamedTensors &inputs,
                             const AnyTensor &c) {
    use.run("matmul", inputs, product.options, {{"c", c}}, configOf(use, product.prefix));
  };
  const auto addBias = [&](const AnyTensor &gradients, bool adds) {
    const BiasConfig chosen{.adds = adds};
    for_dtype<half, bfloat16, float>(dtype, [&]<class T>(T) {
      const auto sumTo = [&]<class Out>(Out) {
        use(biasGradient<T, Out>, ceilDiv(v, chosen.columns), gradients.as<const T, 2>(),
            use.tensor<Out, 1>("dbias"), chosen);
      };
      if (call.dtype("dbias") == dtype_of<T>)
        sumTo(T());
      else
        sumTo(float());
    });
  };
  if (config.biased && !config.gradients)
    addBias(cut(scratch, 0, {0, 0}), false);
  for (std::int64_t first = 0; first < n; first += chunk) {
    const Slice rows{first, std::min(chunk, n - first)};
    const auto products = productsOf(call, rows.length);
    const auto part = cut(x, 0, rows);
    const auto logits = cut(scratch, 0, {0, rows.length});
    ofProduct(products[0], {{"a", part}, {"b", w}}, logits);
    for_dtype<half, bfloat16, float>(dtype, [&]<class T>(T) {
      forTargets(call, [&]<class Target>(Target) {
        use(linearLoss<T, Target>, rows.length, config,
            {{"x", part.as<T, 2>()},
             {"targets", cut(use.tensor<Target, 1>("targets"), 0, rows)},
             {"logits", logits.as<T, 2>()},
             {"dloss", config.weighted ? cut(dloss, 0, rows) : dloss},
             {"share", share},
             {"sums", sums},
             {"loss", cut(losses, 0, rows)},
             {"lse", cut(lse, 0, rows)},
             {"logprob", cut(logprob, 0, rows)},
             {"argmax", config.argmax ? cut(argmax, 0, rows) : argmax}});
      });
    });
    if (!config.gradients)
      continue;
    ofProduct(products[1], {{"a", logits}, {"b", w}}, cut(matrixOf(use, "dx"), 0, rows));
    const AnyTensor dw = matrixOf(use, "dw");
    NamedTensors inputs{{"a", logits}, {"b", part}};
    if (first > 0)
      inputs.emplace("residual", dw);
    ofProduct(products[2], inputs, dw);
    if (config.biased)
      addBias(logits, first > 0);
  }
  if (reduction != "none")
    forTargets(call, [&]<class Target>(Target) {
      use(crossEntropyMean<Target>, 1, mean, {{"losses", losses}, {"sums", sums}, {"loss", loss}});
    });
}

void check(const Invocation &call) {
  if (call.extent("V") == 0 && call.extent("N") != 0)
    refuse(call, "there are targets, but w has no classes");
  if (call.extent("N") == 0 && call.options.flag("gradients"))
    refuse(call, "there are no rows, so that dw would not be written; use gradients=false");
}

std::vector<HostArray> reference(const Invocation &call, std::span<const HostArray> in,
                                 Arithmetic arithmetic) {
  const std::int64_t n = call.extent("N"), v = call.extent("V"), h = call.extent("H");
  const double cap = call.options.number("softcap"), scale = call.options.number("scale");
  const std::string &reduction = call.options.choice("reduction");
  const CrossEntropyValues values = lossValues(call, in);
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = loadOperand(numbers, call, in[0], arithmetic),
               w = loadOperand(numbers, call, in[1], arithmetic);
    const auto bias = numbers.load(in[4]);
    std::vector<Number> logits(static_cast<std::size_t>(n * v));
    parallelFor(n, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < v; ++j) {
        Number &logit = logits[static_cast<std::size_t>(i * v + j)];
        logit = numbers.store(static_cast<Number>(scale) * productOfRows<Number>(x, i, w, j, h));
        if (!bias.empty())
          logit += static_cast<Number>(scale) * bias[static_cast<std::size_t>(j)];
        if (cap != 0)
          logit = static_cast<Number>(cap) * std::tanh(logit / static_cast<Number>(cap));
      }
    });
    const HostArray array = numbers.pack(numbers.statistics, {n, v}, logits);
    CrossEntropyResult result = crossEntropyReference(array, in[2], values, arithmetic);
    if (reduction == "mean" && call.options.choice("empty") == "zero" &&
        std::isnan(result.loss.to_double()[0]) &&
        std::ranges::all_of(in[2].to_double(), [&](double target) {
          return target == static_cast<double>(values.ignored);
        }))
      result.loss.assign(std::vector<double>{0});
    CrossEntropyValues plain = values;
    plain.smoothing = plain.square = 0;
    plain.weights.clear();
    plain.reduction = "none";
    std::vector<double> logprob =
        crossEntropyReference(array, in[2], plain, arithmetic).loss.to_double();
    for (double &value : logprob)
      value = -value;
    HostArray dloss(DType::float32, reduction == "none" ? Shape{n} : Shape{});
    dloss.assign(std::vector<double>(static_cast<std::size_t>(dloss.count()), 1));
    const HostArray dl =
        crossEntropyBackwardReference(array, in[2], result.lse, dloss, values, arithmetic);
    auto gradient = numbers.load(dl);
    const auto tokens = numbers.load(in[3]);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const Number part = cap != 0 ? logits[i] / static_cast<Number>(cap) : 0;
      gradient[i] = numbers.store(gradient[i] * static_cast<Number>(scale) * (1 - part * part) *
                                  (tokens.empty() ? 1 : tokens[i / static_cast<std::size_t>(v)]));
    }
    std::vector<Number> dx(static_cast<std::size_t>(n * h)), dw(static_cast<std::size_t>(v * h)),
        dbias(static_cast<std::size_t>(v));
    for (std::int64_t i = 0; i < n; ++i) {
      addProducts<Number>(rowOf(gradient, i, v), w.data(), rowOf(dx, i, h));
      for (std::int64_t j = 0; j < v; ++j) {
        const Number each = gradient[static_cast<std::size_t>(i * v + j)];
        dbias[static_cast<std::size_t>(j)] += each;
        for (std::int64_t p = 0; p < h; ++p)
          dw[static_cast<std::size_t>(j * h + p)] += each * x[static_cast<std::size_t>(i * h + p)];
      }
    }
    if (!call.options.flag("gradients"))
      std::ranges::fill(dbias, Number(0));
    return outputsOf(call, numbers, result.loss, result.lse, logprob, dx, dw, dbias, result.argmax);
  });
}

} // namespace

KernelSpec sectile::linearCrossEntropySpec() {
  KernelSpec spec;
  spec.name = "linear_cross_entropy";
  spec.summary = "cross entropy of x w^T and its gradients, without the logits in memory";
  const auto ofWeights = [](const Invocation &call) {
    return call.options.choice("accumulate") == "f32" ? DType::float32 : call.dtype("w");
  };
  spec.add_arguments(
      {{"x: [N, H] f16|bf16|f32", "of each token"},
       {"w: [V, H] like x", "of each class", {.sample = sampleNormal(0.2)}},
       targetsArgument("N"),
       {"dloss?: [N] f32",
        "of each token: its part of the gradients is multiplied by it; 1 if not given"},
       {"bias?: [V] like x", "of each class, added to the products"},
       classWeightsArgument(),
       {"-> loss: [N] f32", "one number unless the reduction is none", {.stored = reduced}},
       {"-> lse: [N] f32", "natural logarithm of each token's sum of exponentials"},
       {"-> logprob: [N] f32", "of each target; 0 where it is ignored"},
       {"-> dx: [N, H] like x with gradients", "gradient of x"},
       {"-> dw: [V, H] with gradients", "gradient of w", {.dtype_by = ofWeights}},
       {"-> dbias: [V] with bias",
        "gradient of bias, 0 without gradients; dw's dtype",
        {.dtype_by = ofWeights}},
       {"-> argmax: [N] i32 with argmax", "the class of each token's largest logit, the first of "
                                          "equals; of a NaN, if there is one"}});
  spec.add_options(lossOptions());
  spec.add_options(
      {{"softcap: number = 0 from 0 e.g. 2", "c: logits become c tanh(logits / c); 0: they do not"},
       {"scale: number = 1 e.g. 0.5", "of the logits"},
       {"gradients: flag = true", "dx and dw are wanted"},
       {"accumulate: f32|same = f32", "dw's dtype, in which chunks are added; same is w's"},
       {"empty: zero|nan = zero", "the mean over no targets; nan as in PyTorch"},
       precisionOption,
       {"argmax: flag = false", "argmax is wanted"}});
  const KernelSpec product = matmulSpec();
  spec.config = {{"chunk", "tokens whose logits are in scratch memory at once"},
                 {"block", "logits of a token held at once", 32, 1 << 15},
                 {"warps", "warps of a token's program"}};
  spec.typical = {{"N", 8192}, {"V", 128256}, {"H", 4096}};
  spec.small = {{"N", 30}, {"V", 60}, {"H", 40}};
  for (const Product &part :
       std::initializer_list<Product>{{"logits_", "of the logits' product: ", {}, {}},
                                      {"dx_", "of dx's product: ", {}, {}},
                                      {"dw_", "of dw's product: ", {}, {}}})
    for (const ConfigSpec &field : product.config)
      spec.config.push_back(
          {part.prefix + field.name, part.doc + field.doc, field.least, field.most});
  spec.check = check;
  spec.reference = reference;
  spec.factor = 3;
  spec.batch = {"N"};
  spec.flops = [](const Invocation &call) {
    return (call.options.flag("gradients") ? 6.0 : 2.0) * static_cast<double>(call.extent("N")) *
           static_cast<double>(call.extent("V")) * static_cast<double>(call.extent("H"));
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t chunk = chunkFor(call),
                       block = powerAtLeast(std::clamp<std::int64_t>(call.extent("V"), 128, 4096));
    Config config{{"chunk", chunk},
                  {"block", block},
                  {"warps", std::clamp<std::int64_t>(block / (16 * warpSize(target)), 1, 8)}};
    const std::int64_t rows = std::min(chunk, std::max<std::int64_t>(call.extent("N"), 1));
    for (const Product &part : productsOf(call, rows)) {
      const Invocation inner =
          resolveTypical(findKernel("matmul"), name_of(call.dtype("x")), part.extents,
                         Assignments(part.options.begin(), part.options.end()), part.with);
      for (const auto &[name, value] : inner.kernel->defaults(inner, target))
        config[part.prefix + name] = value;
    }
    return config;
  };
  spec.spaces = {{.part = "linear_cross_entropy",
                  .axes = {{"block", {128, 1024, 2048, 4096, 8192}}, {"warps", {2, 4, 8, 16}}},
                  .where = tilesWithin({"block"}, 1, 32, {{"block", 128, "V"}})}};
  spec.apply = launch;
  return spec;
}
