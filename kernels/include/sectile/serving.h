// Caches of keys and values as functions on tensors with types. Each is the call by name
// (<sectile/library.h>) of the kernel that it is named after, with the caches changed where they
// lie: it launches, does not wait, and throws LaunchError for arguments that the kernel does not
// take.
#pragma once
#include <sectile/attention.h>
#include <sectile/kernels.h>

namespace sectile {

// A cache is [blocks, Hkv, page, D], of the elements of the rows that go there, or of float8_e4m3,
// float8_e5m2 or std::int8_t. With nhd it is [blocks, page, Hkv, D].
struct KvAppendOptions {
  bool nhd = false;
  std::optional<AnyTensor> k_scale = {}, v_scale = {}; // [1 or Hkv] of floats
  // [blocks, Hkv, page] of floats, with nhd [blocks, page, Hkv]: scales that fit each token and
  // head are made there, for codes of 8 bits.
  std::optional<AnyTensor> k_scales = {}, v_scales = {};
};
struct RopeAppendOptions {
  bool nhd = false;
  bool interleaved = false; // as of RopeOptions, these four
  double theta = 10000;
  std::optional<std::int64_t> rotary = {};
  RopeScaling scaling = {};
  double eps = 1e-6;                                     // added to the mean of a head's squares
  double weight_offset = 0;                              // added to the weights
  std::optional<AnyTensor> cos_sin = {};                 // [P, R] of floats, in place of theta
  std::optional<AnyTensor> q_weight = {}, k_weight = {}; // [D]: heads are normalised before
  std::optional<AnyTensor> k_scale = {}, v_scale = {};   // [1 or Hkv] of floats
  std::optional<AnyTensor> k_scales = {}, v_scales = {}; // as of KvAppendOptions
};
struct AttentionCachedOptions {
  bool causal = true;               // query i of n sees key j where j <= i + context_len - n
  std::optional<double> scale = {}; // of the scores; 1/sqrt(D) if none
  double softcap = 0;               // c: scaled scores s become c tanh(s / c); 0: they do not
  // How far before and behind its own position a query sees; any distance where there is none.
  std::optional<std::int64_t> window_left = {}, window_right = {};
  std::int64_t chunk = 0; // positions of a chunk, of which a query sees its own; 0: all
  // With cu_seqlens_q and a plan, the most tokens that a sequence has in q; T if none.
  std::optional<std::int64_t> max_queries = {};
  // [S + 1] of std::int32_t: sequence s has the tokens cu_seqlens_q[s] to cu_seqlens_q[s + 1] - 1.
  // Without it each has T / S.
  std::optional<AnyTensor> cu_seqlens_q = {};
  std::optional<AnyTensor> tree = {};  // [T, words] of std::int32_t: bits of keys that tokens see
  std::optional<AnyTensor> plan = {};  // [parts, 4] of std::int32_t, of paged_plan
  std::optional<AnyTensor> sinks = {}; // [1 or Hq, R] of floats
  std::optional<AnyTensor> k_scale = {}, v_scale = {};   // [1 or blocks, Hkv] of floats
  std::optional<AnyTensor> k_scales = {}, v_scales = {}; // [blocks, Hkv, page], of kv_append
  // [S] of std::int32_t: how many of a sequence's first keys are padding, which no query sees.
  std::optional<AnyTensor> left_pad = {};
  // [T, Hq, D] like q: scores are scale * (q k + qv v). Where no scale is given, it is 1/sqrt(2 D).
  std::optional<AnyTensor> qv = {};
};
// Of both kernels over latents, those of one alone marked.
struct LatentOptions {
  std::optional<std::int64_t> latent = {};      // columns of a latent; D - 64 if none
  std::optional<AnyTensor> sinks = {};          // [1 or Hq, R] of floats
  std::optional<AnyTensor> cache_scale = {};    // [1] of floats: a factor of its numbers
  bool causal = true;                           // latent_decode
  std::optional<std::int64_t> max_queries = {}; // latent_decode, as above, these three
  std::optional<AnyTensor> cu_seqlens_q = {}, plan = {};
  std::optional<AnyTensor> lengths =
      {}; // latent_sparse: [S] of std::int32_t, of indices that count
};
struct PagedSlots {
  Tensor<std::int32_t, 1> slots, positions; // [T]
};

namespace detail {
void addOptions(TypedCall &call, const LatentOptions &options);
// The outputs of what is changed where it lies.
template <class Options>
NamedTensors updatedCaches(const AnyTensor &k_cache, const AnyTensor &v_cache,
                           const Options &options) {
  NamedTensors outputs{{"k_out", k_cache}, {"v_out", v_cache}};
  if (options.k_scales)
    outputs.emplace("k_scales_out", *options.k_scales);
  if (options.v_scales)
    outputs.emplace("v_scales_out", *options.v_scales);
  return outputs;
}
// [H, T, W] of [T, H, W], of columns `first` to first + count - 1, and the other way round.
template <class T>
Tensor<T, 3> headsFirst(const Tensor<T, 3> &x, std::int64_t first, std::int64_t count) {
  return {x.data() + first * x.stride(2),
          {x.extent(1), x.extent(0), count},
          {x.stride(1), x.stride(0), x.stride(2)},
          x.memory()};
}
} // namespace detail

// Writes k and v [T, Hkv, D] of new tokens, of half, bfloat16 or float, to the caches: token t to
// row slots[t] % page of block slots[t] / page, unless slots[t] is negative. slots: [T] of
// std::int32_t or std::int64_t.
template <class T, class C, class I>
void kv_append(const Stream &stream, const Tensor<T, 3> &k, const detail::KernelInput<T, 3> &v,
               const Tensor<C, 4> &k_cache, const std::type_identity_t<Tensor<C, 4>> &v_cache,
               const Tensor<I, 1> &slots, const KvAppendOptions &options = {}) {
  detail::run(stream,
              {"kv_append",
               {{"k", k}, {"v", v}, {"k_cache", k_cache}, {"v_cache", v_cache}, {"slots", slots}}},
              options, detail::updatedCaches(k_cache, v_cache, options));
}

// The same with k rotated by the tokens' positions [T]. Gives q [T, Hq, D] rotated; `to` may be q.
template <class T, class C, class I>
detail::KernelOutput<T, 3>
rope_append(const Stream &stream, const Tensor<T, 3> &q, const detail::KernelInput<T, 3> &k,
            const detail::KernelInput<T, 3> &v, const Tensor<C, 4> &k_cache,
            const std::type_identity_t<Tensor<C, 4>> &v_cache, const Tensor<I, 1> &slots,
            const detail::KernelInput<I, 1> &positions, const RopeAppendOptions &options = {},
            const detail::KernelTo<detail::KernelOutput<T, 3>> &to = {}) {
  return detail::callFor("q_out", stream,
                         {"rope_append",
                          {{"q", q},
                           {"k", k},
                           {"v", v},
                           {"k_cache", k_cache},
                           {"v_cache", v_cache},
                           {"slots", slots},
                           {"positions", positions}}},
                         options, to, detail::updatedCaches(k_cache, v_cache, options));
}

// Attention of q [T, Hq, D], the newest tokens of S sequences, over their keys in pages: key j of
// sequence s, which has context_lens[s] keys, those of its tokens included, is row j % page of
// block block_tables[s, j / page] of the caches [blocks, Hkv, page, D]. These are of q's elements,
// or of float8_e4m3, float8_e5m2, std::int8_t or, as std::uint8_t with D / 2 of them, pairs of 4
// bits. Gives o like q and lse [T, Hq].
template <class T, class C>
AttentionOutputs<std::remove_const_t<T>, 3> attention_cached(
    const Stream &stream, const Tensor<T, 3> &q, const Tensor<C, 4> &k_cache,
    const detail::KernelInput<C, 4> &v_cache, const Tensor<const std::int32_t, 1> &context_lens,
    const Tensor<const std::int32_t, 2> &block_tables, const AttentionCachedOptions &options = {},
    const detail::AttentionTo<AttentionOutputs, T, 3> &to = {}) {
  return detail::callFor(stream,
                         {"attention_cached",
                          {{"q", q},
                           {"k_cache", k_cache},
                           {"v_cache", v_cache},
                           {"context_lens", context_lens},
                           {"block_tables", block_tables}}},
                         options, to);
}

// Attention of absorbed queries over latents (MLA): q [T, Hq, D] are the newest tokens of S
// sequences, in columns of the latent, which come first, and rotated ones; key j of a sequence is
// row j % page of block block_tables[s, j / page] of the cache [blocks, page, Dc], and its value
// the row's latent. Rows are of q's elements or of float8_e4m3, with Dc = D, or of bytes: codes of
// float8_e4m3, a float for each 128 of them, and the rotated columns as bfloat16. scale: of the
// scores. Gives o [T, Hq, latent] and lse [T, Hq].
template <class T, class C>
AttentionOutputs<std::remove_const_t<T>, 3>
latent_decode(const Stream &stream, const Tensor<T, 3> &q, const Tensor<C, 3> &cache,
              const Tensor<const std::int32_t, 1> &context_lens,
              const Tensor<const std::int32_t, 2> &block_tables, double scale,
              const LatentOptions &options = {},
              const detail::AttentionTo<AttentionOutputs, T, 3> &to = {}) {
  return detail::callFor(
      stream,
      {"latent_decode",
       {{"q", q}, {"cache", cache}, {"context_lens", context_lens}, {"block_tables", block_tables}},
       {{"scale", detail::wordOf(scale)}}},
      options, to);
}

// The same over the rows that a list names for each of q's S tokens, indices [S, topk]: row
// index % page of block index / page, unless it is negative.
template <class T, class C>
AttentionOutputs<std::remove_const_t<T>, 3>
latent_sparse(const Stream &stream, const Tensor<T, 3> &q, const Tensor<C, 3> &cache,
              const Tensor<const std::int32_t, 2> &indices, double scale,
              const LatentOptions &options = {},
              const detail::AttentionTo<AttentionOutputs, T, 3> &to = {}) {
  return detail::callFor(stream,
                         {"latent_sparse",
                          {{"q", q}, {"cache", cache}, {"indices", indices}},
                          {{"scale", detail::wordOf(scale)}}},
                         options, to);
}

// latent_decode between the products that absorb the projections of keys and values: q_nope [T, Hq,
// Dn] by w_uk [Hq, Dn, latent] becomes the first columns of q [T, Hq, D], whose others are given,
// rotated; the result by w_uv [Hq, latent, Dv] is what is returned, [T, Hq, Dv].
template <class T, class C>
Tensor<T, 3>
latent_attention(const Stream &stream, const std::type_identity_t<Tensor<const T, 3>> &q_nope,
                 const Tensor<T, 3> &q, const std::type_identity_t<Tensor<const T, 3>> &w_uk,
                 const std::type_identity_t<Tensor<const T, 3>> &w_uv, const Tensor<C, 3> &cache,
                 const Tensor<const std::int32_t, 1> &context_lens,
                 const Tensor<const std::int32_t, 2> &block_tables, double scale,
                 const LatentOptions &options = {}) {
  const std::int64_t latent = w_uk.extent(2);
  LatentOptions with = options;
  with.latent = latent;
  matmul(stream, detail::headsFirst(q_nope, 0, q_nope.extent(2)), w_uk, {},
         detail::headsFirst(q, 0, latent));
  const auto out = latent_decode(stream, q, cache, context_lens, block_tables, scale, with);
  const auto o = matmul(stream, detail::headsFirst(out.o, 0, latent), w_uv);
  return detail::headsFirst(o, 0, o.extent(2));
}

// Slots and positions of `tokens` new tokens: of sequence s those from cu_seqlens_q[s] to
// cu_seqlens_q[s + 1] - 1, the last of its context_lens[s] keys, in pages of block_tables
// [S, max].
inline PagedSlots paged_slots(const Stream &stream,
                              const Tensor<const std::int32_t, 1> &context_lens,
                              const Tensor<const std::int32_t, 2> &block_tables,
                              const Tensor<const std::int32_t, 1> &cu_seqlens_q,
                              std::int64_t tokens, std::int64_t page,
                              const std::optional<PagedSlots> &to = {}) {
  return detail::callFor(stream,
                         {"paged_slots",
                          {{"context_lens", context_lens},
                           {"block_tables", block_tables},
                           {"cu_seqlens_q", cu_seqlens_q}},
                          {{"page", std::to_string(page)}, {"tokens", std::to_string(tokens)}}},
                         to);
}

// A plan [parts, 4] of how the keys of sequences are shared out among programs, for
// AttentionCachedOptions::plan. parts is the number of sequences or more.
inline Tensor<std::int32_t, 2> paged_plan(const Stream &stream,
                                          const Tensor<const std::int32_t, 1> &context_lens,
                                          std::int64_t parts,
                                          const std::optional<Tensor<std::int32_t, 2>> &to = {}) {
  return detail::callFor(
      "plan", stream,
      {"paged_plan", {{"context_lens", context_lens}}, {{"parts", std::to_string(parts)}}}, to);
}

} // namespace sectile
