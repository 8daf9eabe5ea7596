// One process of a ring: its slice of ring attention against attention over the whole sequence in
// float64. ring_attention DEVICE mpi|nccl [FILE]: run by mpirun; NCCL's id goes through MPI. DEVICE
// "cuda" is the process's own.
#include "bench/RingProcess.h"
#include "kernels/calls/Execute.h"
#include "kernels/references/Accuracy.h"
#include "kernels/registry/Registry.h"
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sectile/ring_attention.h>
#include <sectile/sectile.h>

using namespace sectile;

namespace {

struct Case {
  DType dtype;
  std::int64_t batch, heads, kvHeads, width;
  std::vector<std::int64_t> lengths; // of the slices; taken in turn by the processes
  bool causal;
  std::optional<double> scale = {};
  bool zigzag = false;

  RingAttentionOptions options() const {
    return {.causal = causal, .zigzag = zigzag, .scale = scale};
  }
};

HostArray random(DType dtype, const Shape &shape, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(elementCount(shape)));
  for (double &value : values)
    value = normal(engine);
  return HostArray(dtype, shape, values);
}

// Places of axis 2.
struct Slice {
  std::int64_t first, length;
};

// Some places, one slice behind the other.
HostArray own(const HostArray &array, const std::vector<Slice> &slices) {
  Shape shape = array.shape;
  shape[2] = 0;
  for (const Slice &slice : slices)
    shape[2] += slice.length;
  const std::int64_t width = shape.size() > 3 ? shape[3] : 1;
  HostArray part(array.dtype, shape);
  const std::size_t size = size_of(array.dtype);
  std::byte *to = part.data.data();
  for (std::int64_t head = 0; head < shape[0] * shape[1]; ++head)
    for (const auto &[first, length] : slices) {
      const auto bytes = static_cast<std::size_t>(length * width) * size;
      std::memcpy(to,
                  array.data.data() +
                      static_cast<std::size_t>((head * array.shape[2] + first) * width) * size,
                  bytes);
      to += bytes;
    }
  return part;
}

// What a process has of the whole sequence.
std::vector<Slice> slicesOf(int rank, const std::vector<std::int64_t> &lengths, bool zigzag) {
  std::vector<Slice> slices;
  std::int64_t place = 0;
  const auto take = [&](int process, std::int64_t length) {
    if (process == rank)
      slices.push_back({place, length});
    place += length;
  };
  const int size = static_cast<int>(lengths.size());
  for (int process = 0; process < size; ++process) {
    const std::int64_t length = lengths[static_cast<std::size_t>(process)];
    take(process, zigzag ? (length + 1) / 2 : length);
  }
  for (int process = size; zigzag && process-- > 0;)
    take(process, lengths[static_cast<std::size_t>(process)] / 2);
  return slices;
}

template <class T> Tensor<T, 4> upload(const Device &device, const HostArray &array) {
  const detail::Memory memory(device, array.data.size());
  memory.upload(array.data.data());
  return tensor(Buffer<T>(memory),
                {array.shape[0], array.shape[1], array.shape[2], array.shape[3]});
}

// The same elements as [B, S, H, D] in memory.
template <class T> Tensor<T, 4> uploadSwapped(const Device &device, const HostArray &array) {
  const Shape &s = array.shape;
  HostArray swapped(array.dtype, {s[0], s[2], s[1], s[3]});
  const std::size_t bytes = static_cast<std::size_t>(s[3]) * sizeof(T);
  for (std::int64_t b = 0; b < s[0]; ++b)
    for (std::int64_t h = 0; h < s[1]; ++h)
      for (std::int64_t i = 0; i < s[2]; ++i)
        std::memcpy(
            swapped.data.data() + static_cast<std::size_t>((b * s[2] + i) * s[1] + h) * bytes,
            array.data.data() + static_cast<std::size_t>((b * s[1] + h) * s[2] + i) * bytes, bytes);
  return upload<T>(device, swapped).permute({0, 2, 1, 3});
}

template <class Buffer> HostArray download(DType dtype, const Shape &shape, const Buffer &memory) {
  HostArray array(dtype, shape);
  memory.download(array.data.data());
  return array;
}

// Memory for [B, H, S, ...] that lies as [B, S, H, ...], filled with what must be overwritten.
template <class T> Tensor<T, 4> swappedRoom(const Device &device, const Shape &s) {
  HostArray array(dtype_of<T>, {s[0], s[1], s[2], s[3]});
  std::memset(array.data.data(), 0xff, array.data.size());
  return uploadSwapped<T>(device, array);
}

// Whether the call writes outputs that it is given, with what it gives without them.
template <class T, class Outputs, class Call>
bool writesInPlace(const Outputs &own, const Outputs &to, Call &&call) {
  const Outputs given = call(to);
  bool ok = true;
  const auto same = [&](const auto &a, const auto &b, const auto &place) {
    const auto left = a.download(), right = b.download();
    ok &=
        left.size() == right.size() && b.data() == place.data() &&
        (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof left[0]) == 0);
  };
  if constexpr (requires { own.lse; }) {
    same(own.o, given.o, to.o);
    same(own.lse, given.lse, to.lse);
  } else {
    same(own.dq, given.dq, to.dq);
    same(own.dk, given.dk, to.dk);
    same(own.dv, given.dv, to.dv);
  }
  return ok;
}

template <class T> bool runs(const Device &device, const Communicator &ring, const Case &test) {
  std::vector<std::int64_t> lengths;
  std::int64_t total = 0;
  for (int i = 0; i < ring.size(); ++i) {
    lengths.push_back(test.lengths[static_cast<std::size_t>(i) % test.lengths.size()]);
    total += lengths.back();
  }
  const std::int64_t mine = lengths[static_cast<std::size_t>(ring.rank())];
  const std::vector<Slice> slices = slicesOf(ring.rank(), lengths, test.zigzag);
  const HostArray q = random(test.dtype, {test.batch, test.heads, total, test.width}, 1);
  const HostArray k = random(test.dtype, {test.batch, test.kvHeads, total, test.width}, 2);
  const HostArray v = random(test.dtype, {test.batch, test.kvHeads, total, test.width}, 3);
  const auto result = ring_attention<T>(device.stream(), ring, upload<T>(device, own(q, slices)),
                                        uploadSwapped<T>(device, own(k, slices)),
                                        upload<T>(device, own(v, slices)), test.options());
  device.synchronize();
  const Shape shapeOfO{test.batch, test.heads, mine, test.width},
      shapeOfK{test.batch, test.kvHeads, mine, test.width};
  const Tensor<float, 4> logs = swappedRoom<float>(device, {test.batch, test.heads, mine, 1});
  bool ok = writesInPlace<T>(result,
                             RingAttention<T>{swappedRoom<T>(device, shapeOfO),
                                              {logs.data(),
                                               {logs.extent(0), logs.extent(1), logs.extent(2)},
                                               {logs.stride(0), logs.stride(1), logs.stride(2)},
                                               logs.memory()}},
                             [&](const RingAttention<T> &to) {
                               return ring_attention<T>(
                                   device.stream(), ring, upload<T>(device, own(q, slices)),
                                   uploadSwapped<T>(device, own(k, slices)),
                                   upload<T>(device, own(v, slices)), test.options(), to);
                             });
  if (!ok)
    std::cerr << "outputs that were given differ\n";

  Assignments options{{"causal", test.causal ? "true" : "false"}};
  if (test.scale)
    options.emplace_back("scale", std::to_string(*test.scale));
  const Invocation whole = resolve(findKernel("attention"),
                                   {{"q", {{test.dtype, q.shape}, ""}},
                                    {"k", {{test.dtype, k.shape}, ""}},
                                    {"v", {{test.dtype, v.shape}, ""}}},
                                   options);
  std::vector<HostArray> inputs(whole.index("o"));
  inputs[0] = q;
  inputs[1] = k;
  inputs[2] = v;
  const auto exact = referenceOutputs(whole, inputs, Arithmetic::exact);
  const auto base = referenceOutputs(whole, inputs, Arithmetic::own);
  const Shape rows{test.batch, test.heads, mine};
  const HostArray o = download(test.dtype, {rows[0], rows[1], mine, test.width}, result.o.memory());
  const HostArray lse = download(DType::float32, rows, result.lse.memory());
  auto expect = [&](const char *name, const HostArray &got, const HostArray &exactly,
                    const HostArray &plainly, double factor) {
    const Accuracy accuracy = judge(got, own(exactly, slices), own(plainly, slices), factor);
    if (!accuracy.ok())
      std::cerr << "process " + std::to_string(ring.rank()) + ", length " + std::to_string(total) +
                       ": " + name + ": " + accuracy.describe() + "\n";
    ok &= accuracy.ok();
  };
  expect("o", o, exact[0], base[0], 2);
  expect("lse", lse, exact[1], base[1], 2);

  const HostArray gradient = random(test.dtype, q.shape, 4);
  const auto gradients = ring_attention_backward<T>(
      device.stream(), ring, upload<T>(device, own(q, slices)), upload<T>(device, own(k, slices)),
      uploadSwapped<T>(device, own(v, slices)), result,
      uploadSwapped<T>(device, own(gradient, slices)), test.options());
  device.synchronize();
  const bool inPlace = writesInPlace<T>(
      gradients,
      RingAttentionGradients<T>{swappedRoom<T>(device, shapeOfO), swappedRoom<T>(device, shapeOfK),
                                swappedRoom<T>(device, shapeOfK)},
      [&](const RingAttentionGradients<T> &to) {
        return ring_attention_backward<T>(
            device.stream(), ring, upload<T>(device, own(q, slices)),
            upload<T>(device, own(k, slices)), uploadSwapped<T>(device, own(v, slices)), result,
            uploadSwapped<T>(device, own(gradient, slices)), test.options(), to);
      });
  if (!inPlace)
    std::cerr << "gradients that were given differ\n";
  ok &= inPlace;
  const KernelSpec &kernel = findKernel("attention_backward");
  const Invocation backward = resolve(kernel,
                                      {{"q", {{test.dtype, q.shape}, ""}},
                                       {"k", {{test.dtype, k.shape}, ""}},
                                       {"v", {{test.dtype, v.shape}, ""}},
                                       {"o", {{test.dtype, q.shape}, ""}},
                                       {"lse", {{DType::float32, exact[1].shape}, ""}},
                                       {"do", {{test.dtype, q.shape}, ""}}},
                                      options);
  const std::size_t firstOutput = backward.index("dq");
  // Given the forward pass of the arithmetic, as a user would have it.
  auto reference = [&](Arithmetic arithmetic, const HostArray &forwardO,
                       const HostArray &forwardLse) {
    std::vector<HostArray> arrays(firstOutput);
    for (const auto &[name, array] : {std::pair<const char *, const HostArray *>{"q", &q},
                                      {"k", &k},
                                      {"v", &v},
                                      {"o", &forwardO},
                                      {"lse", &forwardLse},
                                      {"do", &gradient}})
      arrays[backward.index(name)] = *array;
    return referenceOutputs(backward, arrays, arithmetic);
  };
  const auto exactGradients = reference(Arithmetic::exact, exact[0], exact[1]);
  const auto baseGradients = reference(Arithmetic::own, base[0], base[1]);
  for (const auto &[name, tensor] :
       {std::pair<const char *, const Tensor<T, 4> *>{"dq", &gradients.dq},
        {"dk", &gradients.dk},
        {"dv", &gradients.dv}}) {
    const std::size_t place = backward.index(name) - firstOutput;
    Shape shape = exactGradients[place].shape;
    shape[2] = mine;
    expect(name, download(test.dtype, shape, tensor->memory()), exactGradients[place],
           baseGradients[place], 3);
  }
  return ok;
}

// Every process must refuse, and none may wait for the others.
bool refuses(const Device &device, const Communicator &ring) {
  if (ring.size() == 1)
    return true;
  const std::int64_t keys = ring.rank() == 0 ? 5 : 4;
  const HostArray q = random(DType::float16, {1, 1, 4, 16}, 1),
                  k = random(DType::float16, {1, 1, keys, 16}, 1);
  try {
    ring_attention<half>(device.stream(), ring, upload<half>(device, q), upload<half>(device, k),
                         upload<half>(device, k), {.causal = true});
  } catch (const LaunchError &error) {
    return std::strstr(error.what(), ring.rank() == 0 ? "as many queries as keys"
                                                      : "another process has tensors");
  }
  return false;
}

// An output that does not fit in one process is refused by all.
bool refusesOutputs(const Device &device, const Communicator &ring) {
  const HostArray q = random(DType::float16, {1, 1, 4, 16}, 1);
  const Tensor<half, 4> x = upload<half>(device, q);
  const bool isFirst = ring.rank() == 0;
  const RingAttention<half> to{swappedRoom<half>(device, {1, 1, isFirst ? 5 : 4, 16}),
                               tensor(device.allocate<float>(4), {1, 1, 4})};
  try {
    ring_attention<half>(device.stream(), ring, x, x, x, {}, to);
  } catch (const LaunchError &error) {
    return std::strstr(error.what(), isFirst ? "o is given as [1, 1, 5, 16], but is [1, 1, 4, 16]"
                                             : "another process has tensors");
  }
  return false;
}

} // namespace

int main(int count, char **words) try {
  if (count < 3)
    return 2;
  const auto [all, name, device, ring] = RingProcess(words[1], words[2]);
  bool ok = refuses(device, ring) && refusesOutputs(device, ring);
  if (!ok)
    std::cerr << "process " << ring.rank() << " took tensors that do not fit\n";
  for (bool causal : {false, true})
    for (const Case &test : {Case{DType::float16, 2, 4, 2, 64, {33}, causal},
                             Case{DType::bfloat16, 1, 2, 1, 80, {70, 1, 17}, causal},
                             Case{DType::float16, 1, 1, 1, 16, {20, 0}, causal, 0.5}})
      ok &= test.dtype == DType::float16 ? runs<half>(device, ring, test)
                                         : runs<bfloat16>(device, ring, test);
  for (const bool causal : {false, true})
    ok &= runs<half>(device, ring, {DType::float16, 1, 2, 1, 64, {33, 70, 1, 0}, causal, {}, true});
  ok &= runs<float>(device, ring, {DType::float32, 1, 2, 2, 32, {40}, true});
  std::int64_t bad = 0;
  for (std::int64_t other : ring.all_gather(!ok))
    bad += other;
  if (all.rank() == 0)
    std::cout << all.size() << " processes on " << name
              << " and its like: " << (bad ? "FAILED" : "ok") << "\n";
  return bad ? 1 : 0;
} catch (const std::exception &error) {
  std::cerr << "ring_attention: " << error.what() << "\n";
  std::_Exit(1);
}
