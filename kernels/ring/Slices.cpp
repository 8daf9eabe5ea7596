// ring_attention and its gradients as kernels of the registry: what the processes of a ring do with
// their slices of the sequence, done by one process on one device, by RingAttention.cpp's formulas.
// Refused: slices outside 1 to 64, what attention refuses, and in causal order Sq that is not Sk.
#include "kernels/attention/Family.h"
#include "kernels/attention/Options.h"
#include "kernels/calls/Use.h"
#include "kernels/ring/Accumulate.h"
#include "kernels/ring/Family.h"

using namespace sectile;

namespace {

class Slices {
public:
  explicit Slices(const Invocation &call)
      : count(call.options.integer("slices")), causal(call.options.flag("causal")),
        scale(call.options.choice("scale")) {}

  // What one process has of an axis.
  Slice of(std::int64_t process, std::int64_t total) const {
    const std::int64_t each = ceilDiv(total, count), first = std::min(process * each, total);
    return {first, std::min(each, total - first)};
  }
  // Calls step(process, owner of the keys, whether the process begins with them) in the order in
  // which a ring's processes come to them.
  template <class Step> void eachStep(Step &&step) const {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t process = 0; process < count; ++process)
        if (const std::int64_t owner = (process - i + count) % count; !causal || owner <= process)
          step(process, owner, i == 0);
  }
  KernelOptions options(std::int64_t process, std::int64_t owner) const {
    return ringOptions(causal && owner == process, scale);
  }

  const std::int64_t count;

private:
  const bool causal;
  const std::string scale; // empty: of the widths
};

// What both directions have in common with the attention kernel of this specification.
KernelSpec sliced(KernelSpec spec) {
  spec.name = "ring_" + spec.name;
  std::erase_if(spec.arguments, [](const ArgumentSpec &argument) {
    return argument.optional || !argument.with.empty();
  });
  for (ArgumentSpec &argument : spec.arguments)
    argument.stored = nullptr;
  spec.options.clear();
  spec.add_options(
      {{"slices: integer = 2 from 1 to 64 e.g. 1, 3, 5",
        "processes that the sequence is spread over, up to 64"},
       {"causal: flag = false", "query i sees keys up to i of the whole sequence; Sq is Sk then"},
       {"scale: number e.g. 0.3", "of the scores; 1/sqrt(D) if not given"}});
  for (const char *axis : {"Sq", "Sk"})
    spec.small[axis] = 50;
  for (auto *extents : {&spec.typical, &spec.small})
    extents->erase("R");
  spec.check = [](const Invocation &call) {
    if (call.options.flag("causal") && call.extent("Sq") != call.extent("Sk"))
      refuse(call, "a causal ring needs as many queries as keys, not ", call.extent("Sq"), " and ",
             call.extent("Sk"));
    checkHeads(call);
  };
  return spec;
}

template <class T> void forward(Use &use) {
  const Invocation &call = use.call;
  const Slices slices(call);
  const auto q = use.tensor<T, 4>("q"), k = use.tensor<T, 4>("k"), v = use.tensor<T, 4>("v"),
             o = use.tensor<T, 4>("o");
  const auto lse = use.tensor<float, 3>("lse");
  const auto sums = use.workspace<float, 4>(o.extents());
  const auto partO = use.workspace<float, 4>(o.extents());
  const auto partLse = use.workspace<float, 3>(lse.extents());
  slices.eachStep([&](std::int64_t process, std::int64_t owner, bool first) {
    const Slice queries = slices.of(process, q.extent(2)), keys = slices.of(owner, k.extent(2));
    const auto to = cut(sums, 2, queries);
    const auto logs = cut(lse, 2, queries);
    const auto part = first ? to : cut(partO, 2, queries);
    const auto partLogs = first ? logs : cut(partLse, 2, queries);
    use.run("attention", ringInputs(q, k, v, queries, keys), slices.options(process, owner),
            {{"o", part}, {"lse", partLogs}}, use.config);
    if (!first)
      eachRow(use, mergePart, to, logs, part, partLogs);
  });
  eachRow(use, assignPart<T, float>, o, sums);
}

template <class T> void backward(Use &use) {
  const Invocation &call = use.call;
  const Slices slices(call);
  const auto q = use.tensor<T, 4>("q"), k = use.tensor<T, 4>("k"), v = use.tensor<T, 4>("v"),
             o = use.tensor<T, 4>("o"), dO = use.tensor<T, 4>("do");
  const auto lse = use.tensor<float, 3>("lse");
  const auto dq = use.workspace<float, 4>(q.extents()), dk = use.workspace<float, 4>(k.extents()),
             dv = use.workspace<float, 4>(v.extents());
  const auto partQ = use.workspace<float, 4>(q.extents()),
             partK = use.workspace<float, 4>(k.extents()),
             partV = use.workspace<float, 4>(v.extents());
  slices.eachStep([&](std::int64_t process, std::int64_t owner, bool first) {
    const Slice queries = slices.of(process, q.extent(2)), keys = slices.of(owner, k.extent(2));
    const auto found = [&](const Tensor<float, 4> &sums, const Tensor<float, 4> &part,
                           const Slice &slice) { return cut(first ? sums : part, 2, slice); };
    use.run("attention_backward", ringInputs(q, k, v, o, lse, dO, queries, keys),
            slices.options(process, owner),
            {{"dq", found(dq, partQ, queries)},
             {"dk", found(dk, partK, keys)},
             {"dv", found(dv, partV, keys)}},
            use.config);
    if (first)
      return;
    eachRow(use, addPart, cut(dq, 2, queries), cut(partQ, 2, queries));
    eachRow(use, addPart, cut(dk, 2, keys), cut(partK, 2, keys));
    eachRow(use, addPart, cut(dv, 2, keys), cut(partV, 2, keys));
  });
  eachRow(use, assignPart<T, float>, use.tensor<T, 4>("dq"), dq);
  eachRow(use, assignPart<T, float>, use.tensor<T, 4>("dk"), dk);
  eachRow(use, assignPart<T, float>, use.tensor<T, 4>("dv"), dv);
}

} // namespace

KernelSpec sectile::ringAttentionSpec() {
  KernelSpec spec = sliced(attentionSpec());
  spec.summary = "attention over slices of a sequence, as the processes of a ring do it";
  spec.apply = [](Use &use) {
    for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) { forward<T>(use); });
  };
  return spec;
}

KernelSpec sectile::ringAttentionBackwardSpec() {
  KernelSpec spec = sliced(attentionBackwardSpec());
  spec.summary = "the gradients of ring_attention, summed slice by slice";
  spec.apply = [](Use &use) {
    for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) { backward<T>(use); });
  };
  return spec;
}
