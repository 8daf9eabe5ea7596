// Running kernels on arguments with strides.
#include "KernelTest.h"
#include "vgpu/VirtualDevice.h"
#include <cstring>
#include <sectile/library.h>
#include <sys/mman.h>

namespace sectile::test {
namespace {

constexpr std::byte poison{0xa5};

/// Addresses that a virtual GPU may access; pages come to be where one is.
class SparseMemory {
public:
  SparseMemory(const Device &device, std::size_t bytes)
      : device(static_cast<runtime::VirtualDevice &>(*device.impl())), bytes(bytes),
        start(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (start == MAP_FAILED)
      throw std::runtime_error("the system does not reserve " + std::to_string(bytes) + " bytes");
    memory().adopt(start, bytes);
  }
  ~SparseMemory() {
    memory().disown(start);
    munmap(start, bytes);
  }
  SparseMemory(const SparseMemory &) = delete;
  SparseMemory &operator=(const SparseMemory &) = delete;

  std::byte *at(std::size_t offset) const { return static_cast<std::byte *>(start) + offset; }

private:
  vgpu::DeviceMemory &memory() { return device.machine().memory(); }

  runtime::VirtualDevice &device;
  std::size_t bytes;
  void *start;
};

/// Where an array's elements lie: in `blocks` pieces of memory, `step` elements apart, each of
/// `length` elements. An image is the contents of these pieces, one behind the other.
struct Places {
  Shape strides;
  std::int64_t first = 1; // the first element's: not aligned
  std::int64_t blocks = 1, step = 0, length = 0;
  std::vector<std::int64_t> inImage;

  Places(const Shape &shape, Spread spread) : strides(shape.size()) {
    const std::int64_t count = elementCount(shape);
    std::int64_t inBlock = count; // elements that follow each other within one
    if (spread == Spread::far) {
      // Rows are aligned and lie evenly, so that none of a kernel's ways is closed to them.
      first = 16;
      step = (std::int64_t(1) << 31) + 16;
      const bool hasRows = shape.size() > 1;
      inBlock = hasRows ? shape.back() : 1;
      blocks = std::max<std::int64_t>(inBlock ? count / inBlock : 0, 1);
      std::int64_t stride = hasRows ? 1 : step;
      for (std::size_t i = shape.size(); i-- > 0;) {
        strides[i] = stride;
        stride = hasRows && i + 1 == shape.size() ? step : stride * shape[i];
      }
      length = first + inBlock + 1;
    } else {
      constexpr std::int64_t gap = 3;
      std::int64_t stride = spread == Spread::everywhere ? 2 : 1;
      for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i] + gap)
        strides[i] = stride;
      length = first + stride + 1;
    }
    Shape at(shape.size());
    std::int64_t place = first;
    for (std::int64_t i = 0; i < count; ++i) {
      inImage.push_back(spread == Spread::far ? i / inBlock * length + first + i % inBlock : place);
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        place += strides[axis];
        if (++at[axis] < shape[axis])
          break;
        place -= strides[axis] * shape[axis];
        at[axis] = 0;
      }
    }
  }
};

class SpreadArray {
public:
  SpreadArray(const Device &device, const TensorType &type, Spread spread)
      : type(type), places(type.shape, spread), size(size_of(type.dtype)),
        image(static_cast<std::size_t>(places.blocks * places.length) * size) {
    tensor.dtype = type.dtype;
    tensor.extents = type.shape;
    tensor.strides = places.strides;
    if (spread == Spread::far) {
      sparse = std::make_unique<SparseMemory>(
          device,
          static_cast<std::size_t>((places.blocks - 1) * places.step + places.length) * size);
      tensor.address = reinterpret_cast<std::uint64_t>(sparse->at(0));
    } else {
      tensor.memory = detail::Memory(device, image.size());
      tensor.address = tensor.memory.address();
    }
    tensor.address += static_cast<std::uint64_t>(places.first) * size;
  }

  /// Poison but for these contents, if there are any.
  void fill(const HostArray *contents) {
    std::fill(image.begin(), image.end(), poison);
    if (contents)
      eachElement([&](std::byte *place, std::size_t from) {
        std::memcpy(place, contents->data.data() + from, size);
      });
    if (!sparse)
      tensor.memory.upload(image.data());
    eachBlock([&](std::byte *device, std::byte *host, std::size_t bytes) {
      std::memcpy(device, host, bytes);
    });
  }

  /// The contents. What lies around them has to be as fill() left it.
  HostArray take(const std::string &name) {
    if (!sparse)
      tensor.memory.download(image.data());
    eachBlock([&](std::byte *device, std::byte *host, std::size_t bytes) {
      std::memcpy(host, device, bytes);
    });
    HostArray contents(type.dtype, type.shape);
    eachElement([&](std::byte *place, std::size_t to) {
      std::memcpy(contents.data.data() + to, place, size);
      std::fill_n(place, size, poison);
    });
    EXPECT_TRUE(std::all_of(image.begin(), image.end(), [](std::byte b) { return b == poison; }))
        << name << ": memory beside its elements was written";
    return contents;
  }

  AnyTensor tensor;

private:
  template <class Function> void eachElement(Function &&function) {
    for (std::size_t i = 0; i < places.inImage.size(); ++i)
      function(image.data() + static_cast<std::size_t>(places.inImage[i]) * size, i * size);
  }
  template <class Function> void eachBlock(Function &&function) {
    const std::size_t bytes = static_cast<std::size_t>(places.length) * size;
    for (std::int64_t i = 0; sparse && i < places.blocks; ++i)
      function(sparse->at(static_cast<std::size_t>(i * places.step) * size),
               image.data() + static_cast<std::size_t>(i) * bytes, bytes);
  }

  TensorType type;
  Places places;
  std::size_t size;
  std::vector<std::byte> image;
  std::unique_ptr<SparseMemory> sparse;
};

} // namespace

bool canSpread(const Device &device, Spread spread) {
  return spread != Spread::far || device.name().starts_with("virtual:");
}

void expectRightWithStrides(const Device &device, const KernelCase &test, Spread spread) {
  SCOPED_TRACE(device.name() + " with strides " + test.describe());
  expectRightWithStrides(device, fill(test), spread);
}

void expectRightWithStrides(const Device &device, const FilledCall &filled, Spread spread) {
  const auto &[call, inputs] = filled;
  std::vector<std::unique_ptr<SpreadArray>> arrays(call.tensors.size());
  NamedTensors given, results;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!call.tensors[i].present)
      continue;
    arrays[i] = std::make_unique<SpreadArray>(device, call.tensors[i], spread);
    const ArgumentSpec &spec = call.kernel->arguments[i];
    (spec.output ? results : given)[spec.name] = arrays[i]->tensor;
    if (i < inputs.size())
      arrays[i]->fill(&inputs[i]);
  }
  KernelOptions options;
  for (const auto &[name, value] : call.options.values)
    if (!value.empty())
      options[name] = value;
  const auto run = [&] {
    for (std::size_t i = inputs.size(); i < arrays.size(); ++i)
      if (arrays[i])
        arrays[i]->fill(nullptr);
    run_kernel(device.stream(), call.kernel->name, given, options, results);
    device.synchronize();
    std::vector<HostArray> outputs;
    for (std::size_t i = inputs.size(); i < arrays.size(); ++i)
      outputs.push_back(arrays[i] ? arrays[i]->take(call.kernel->arguments[i].name) : HostArray());
    return outputs;
  };
  const std::vector<HostArray> outputs = run(), again = run();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(outputs[i].data, again[i].data)
        << call.kernel->arguments[inputs.size() + i].name << " differs in a second run";
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (arrays[i]) {
      const std::string &name = call.kernel->arguments[i].name;
      EXPECT_EQ(arrays[i]->take(name).data, inputs[i].data) << "the input " << name << " changed";
    }
  for (const Verdict &verdict : check(call, inputs, outputs))
    EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << ": " << verdict.accuracy.describe();
}

} // namespace sectile::test
