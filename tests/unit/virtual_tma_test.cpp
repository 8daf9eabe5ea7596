// Conformance of TMA: tiles of tensors of all ranks, with swizzles and beyond the tensors' ends,
// loaded, stored and reduced, and bulk copies, against loops over elements and on a chip; and the
// mistakes that the virtual GPU must find.
#include "VirtualTest.h"
#include "codegen/nvidia/Ptxas.h"
#include "vgpu/SmallFloats.h"
#include "vgpu/TensorMap.h"
#include <algorithm>
#include <array>
#include <functional>

using namespace sectile::vgpu;

namespace {

constexpr uint64_t seeds = 20;

std::string number(int64_t value) { return std::to_string(value); }

constexpr int mostBytes = 2048; // of a tile in shared memory: 128 threads move 16 bytes each

// The tile lies this many bytes behind a multiple of 1024.
std::string headText(int offset) {
  return std::string(nvidiaHead) + R"(
declare void @sectile.nv.mbarrier_wait(ptr addrspace(3), i32) convergent
define ptx_kernel void @k(ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %map, ptr addrspace(1) %out, ptr addrspace(1) %in) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %bar = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 16384
  %tile = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 )" +
         number(offset) + R"(
  %s = getelementptr <4 x i32>, ptr addrspace(3) %tile, i32 %i
  %p = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %i
  %q = getelementptr <4 x i32>, ptr addrspace(1) %in, i32 %i
  %first = icmp eq i32 %i, 0
)";
}

std::string coordinatesText(const std::vector<int> &coordinates) {
  std::string text;
  for (int coordinate : coordinates)
    text += "i32 " + number(coordinate) + ", ";
  return text;
}

// Thread 0 loads the box at these coordinates to shared memory; 128 threads write it, 16 bytes
// each.
std::string loadText(const std::vector<int> &coordinates, int boxBytes, int offset = 0) {
  return headText(offset) + R"(
  br i1 %first, label %load, label %ready
load:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 1) ;; 10
  call void @llvm.nvvm.fence.proxy.async() ;; 11
  %state = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 )" +
         number(boxBytes) + R"() ;; 12
  %to = addrspacecast ptr addrspace(3) %tile to ptr addrspace(7)
  call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.)" +
         number(int64_t(coordinates.size())) +
         "d(ptr addrspace(7) %to, ptr addrspace(3) %bar, ptr %map, " +
         coordinatesText(coordinates) + R"(i16 0, i64 0, i1 false, i1 false, i32 0) ;; 13
  br label %ready
ready:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 14
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %bar, i32 0) ;; 15
  ; AFTER
  %v = load <4 x i32>, ptr addrspace(3) %s, align 16 ;; 16
  store <4 x i32> %v, ptr addrspace(1) %p, align 16
  ret void
}
)";
}

// 128 threads fill shared memory from `in`; thread 0 stores the box from there, or reduces with it.
std::string storeText(const std::vector<int> &coordinates, const std::string &operation,
                      int offset = 0) {
  return headText(offset) + R"(
  %v = load <4 x i32>, ptr addrspace(1) %q, align 16
  store <4 x i32> %v, ptr addrspace(3) %s, align 16 ;; 10
  call void @llvm.nvvm.fence.proxy.async() ;; 11
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 12
  br i1 %first, label %store, label %end
store:
  call void @llvm.nvvm.cp.async.bulk.tensor.)" +
         operation + ".tile." + number(int64_t(coordinates.size())) +
         "d(ptr addrspace(3) %tile, ptr %map, " + coordinatesText(coordinates) +
         R"(i64 0, i1 false) ;; 13
  call void @llvm.nvvm.cp.async.bulk.commit.group() ;; 14
  call void @llvm.nvvm.cp.async.bulk.wait.group.read(i32 0) ;; 15
  ; AFTER
  br label %end
end:
  ret void
}
)";
}

struct Tensor {
  TensorMap map;
  std::vector<int> coordinates;
  std::string name;
  int offset = 0;         // bytes of the tile behind a multiple of 1024
  uint64_t allocated = 0; // bytes; 0: as many as all of its elements take

  int rank() const { return map.rank; }
  int elementBytes() const { return int(bytesOf(map.type)); }
  // How many elements of the box there are in the dimension, when each steps[i]th is one.
  int taken(int i) const {
    int count = 0;
    for (int at = 0; at < int(map.box[i]); at += i ? map.steps[i] : 1)
      ++count;
    return count;
  }
  int boxElements() const {
    int count = 1;
    for (int i = 0; i < rank(); ++i)
      count *= taken(i);
    return count;
  }
  uint64_t bytes() const {
    if (allocated)
      return allocated;
    return map.extents[map.rank - 1] *
           (map.rank > 1 ? map.strides[map.rank - 2] : uint64_t(elementBytes()));
  }
  // Stores move 16 bytes where a load moves what the tensor has of them.
  int64_t rowEnd(bool isLoad) const {
    const int64_t granule = isLoad ? 1 : 16 / elementBytes();
    return (int64_t(map.extents[0]) + granule - 1) / granule * granule;
  }
  // Calls visit(byte of the tile, byte of the tensor or -1 outside) for each element of the box.
  // Swizzled rows are as far apart as the swizzle is wide. Their chunks change places with the
  // address in shared memory, 128 bytes of which are a row of 128, two of 64 or four of 32, as the
  // PTX ISA draws it.
  void eachElement(bool isLoad, const std::function<void(int, int64_t)> &visit) const {
    const int width = map.swizzle;
    for (int element = 0; element < boxElements(); ++element) {
      int rest = element, row = 0, rows = 1;
      uint64_t from = 0; // modulo 2^64, as addresses are
      bool inside = true;
      int column = 0;
      for (int i = 0; i < rank(); ++i) {
        const int at = rest % taken(i);
        rest /= taken(i);
        const int64_t place = coordinates[size_t(i)] + at * (i ? map.steps[i] : 1);
        inside &= place >= 0 && place < (i ? int64_t(map.extents[i]) : rowEnd(isLoad));
        from += uint64_t(place) * (i ? map.strides[i - 1] : uint64_t(elementBytes()));
        if (i == 0) {
          column = at * elementBytes();
        } else {
          row += at * rows;
          rows *= taken(i);
        }
      }
      int to = row * int(map.rowBytes()) + column;
      if (width) {
        const int line = (offset + row * width) / 128;
        to = row * width + ((column / 16) ^ line % (width / 16)) * 16 + column % 16;
      }
      visit(to, inside ? int64_t(from) : -1);
    }
  }
};

void PrintTo(const Tensor &tensor, std::ostream *stream) { *stream << tensor.name; }

Tensor tensor(const std::string &name, TensorType type, std::vector<uint64_t> extents,
              std::vector<uint32_t> box, std::vector<int> coordinates, uint8_t swizzle = 0,
              bool fillsWithNaN = false, int offset = 0) {
  Tensor result{{}, coordinates, name, offset};
  result.map.type = type;
  result.map.rank = uint8_t(extents.size());
  result.map.swizzle = swizzle;
  result.map.fillsWithNaN = fillsWithNaN;
  std::copy(extents.begin(), extents.end(), result.map.extents);
  std::copy(box.begin(), box.end(), result.map.box);
  uint64_t stride = (extents[0] * bytesOf(type) + 15) / 16 * 16;
  for (size_t i = 1; i < extents.size(); ++i) {
    result.map.strides[i - 1] = stride;
    stride *= extents[i];
  }
  return result;
}

// The rows from `row` on of a segment, `length` rows of a matrix that begin at row `begin`. Where
// the segment ends is said by coordinates: its rows are the last ones of a dimension of 2^30, the
// next dimension takes 2^30 rows away from the address, modulo 2^64, and the one behind it adds
// where the segment ends. `heads`: the matrix is one of as many, whose rows take turns.
Tensor segment(const std::string &name, TensorType type, uint64_t columns, uint64_t rows,
               std::vector<uint32_t> box, int begin, int length, int row, uint8_t swizzle = 0,
               int column = 0, uint64_t heads = 1, int head = 0) {
  constexpr int most = 1 << 30;
  constexpr uint64_t unbounded = (uint64_t(1) << 31) - 1, vanishing = uint64_t(1) << 34;
  const uint64_t line = columns * bytesOf(type), stride = heads * line;
  box.resize(4, 1);
  Tensor result = tensor(name, type, {columns, most, unbounded, unbounded}, box,
                         {column, most - length + row, most, begin + length}, swizzle);
  std::copy_n(std::array{stride, vanishing - stride, stride}.begin(), 3, result.map.strides);
  if (heads > 1) {
    result.map.rank = 5;
    result.map.extents[4] = heads;
    result.map.strides[3] = line;
    result.map.box[4] = 1;
    result.coordinates.push_back(head);
  }
  result.allocated = rows * stride;
  return result;
}

std::vector<Tensor> tensors() {
  std::vector<Tensor> all = {
      tensor("line", TensorType::U8, {256}, {128}, {64}),
      tensor("line beyond both ends", TensorType::F32, {8}, {16}, {-4}),
      tensor("line beyond its end", TensorType::F32, {8}, {16}, {4}),
      tensor("plane", TensorType::F16, {64, 32}, {32, 16}, {16, 4}),
      tensor("plane beyond its ends", TensorType::BF16, {40, 11}, {32, 16}, {24, 3}),
      tensor("plane before its start", TensorType::U32, {24, 16}, {16, 8}, {-8, -2}),
      tensor("plane outside", TensorType::U32, {24, 16}, {16, 8}, {24, -8}),
      tensor("plane behind the ends", TensorType::U32, {24, 16}, {16, 8}, {28, 16}),
      tensor("swizzled by 32", TensorType::F16, {64, 32}, {16, 32}, {32, 0}, 32),
      tensor("swizzled by 64", TensorType::F32, {40, 32}, {16, 32}, {4, 0}, 64),
      tensor("swizzled by 128", TensorType::F16, {100, 40}, {64, 16}, {40, 30}, 128),
      tensor("bytes swizzled by 128", TensorType::U8, {256, 16}, {128, 16}, {128, 0}, 128),
      tensor("volume", TensorType::F32, {12, 7, 5}, {8, 4, 4}, {8, 2, 3}, 32),
      tensor("four dimensions", TensorType::F64, {6, 5, 4, 3}, {4, 2, 3, 2}, {2, 4, 2, 0}),
      tensor("five dimensions", TensorType::S64, {4, 3, 3, 3, 2}, {2, 2, 2, 2, 2},
             {2, 1, -1, 2, 1}),
      tensor("end of five dimensions", TensorType::S64, {4, 3, 3, 3, 2}, {2, 2, 2, 2, 2},
             {2, 1, 2, 2, 1}),
      tensor("halves with NaN", TensorType::F16, {37, 9}, {32, 8}, {16, 4}, 0, true),
      tensor("bfloats with NaN", TensorType::BF16, {37, 9}, {32, 8}, {-16, 4}, 64, true),
      tensor("floats with NaN", TensorType::F32, {21, 9}, {16, 8}, {16, -4}, 64, true),
      tensor("doubles with NaN", TensorType::F64, {21, 9}, {8, 8}, {16, 4}, 0, true),
  };
  // Boxes of which each second, third, … element is taken.
  auto withSteps = [&](Tensor of, std::vector<int> steps) {
    std::copy(steps.begin(), steps.end(), of.map.steps);
    all.push_back(std::move(of));
  };
  withSteps(tensor("each second row", TensorType::F16, {64, 32}, {32, 16}, {16, 5}), {1, 2});
  withSteps(tensor("each third row", TensorType::F16, {64, 32}, {32, 16}, {16, 22}, 64), {1, 3});
  withSteps(tensor("steps of a volume", TensorType::F32, {12, 17, 21}, {8, 8, 16}, {8, -1, 7}, 32),
            {1, 2, 5});
  withSteps(
      tensor("steps beyond a volume", TensorType::F32, {12, 17, 21}, {8, 8, 16}, {8, 11, 7}, 32),
      {1, 2, 5});
  withSteps(tensor("a step along rows", TensorType::U32, {24, 16}, {16, 8}, {4, 2}), {2, 1});
  // Segments that end in the box, at its end and beyond it, and empty ones.
  const auto half = TensorType::F16;
  for (int length : {0, 1, 15, 16, 17, 30}) {
    const std::string rows = number(length) + " rows";
    all.push_back(segment("segment of " + rows, half, 32, 48, {32, 16}, 10, length, 0));
    all.push_back(segment("first segment of " + rows, half, 64, 48, {64, 16}, 0, length, 16, 128));
    all.push_back(segment("segment of a head of " + rows, half, 64, 48, {32, 16}, 7, length, 0, 64,
                          48, 3, 2));
  }
  all.push_back(segment("last segment", TensorType::F32, 12, 40, {8, 16}, 30, 10, 0, 32, 8));
  all.push_back(segment("far beyond a segment", half, 32, 40, {32, 16}, 3, 20, 1 << 29));
  all.push_back(segment("whole blocks below a segment", half, 32, 40, {32, 16}, 3, 20, 1 << 30));
  // Rows narrower than their swizzle.
  for (int swizzle : {32, 64, 128})
    for (int row = 16; row < swizzle; row *= 2) {
      const std::string name = number(row) + " bytes swizzled by " + number(swizzle);
      all.push_back(tensor(name, TensorType::F16, {70, 20}, {uint32_t(row / 2), 16}, {40, 8},
                           uint8_t(swizzle)));
    }
  all.push_back(tensor("narrow volume", TensorType::F32, {12, 7, 5}, {8, 3, 4}, {8, 2, 3}, 128));
  // Tiles that start within a swizzle's pattern.
  for (int swizzle : {32, 64, 128})
    for (int offset : {128, 256, 384, 640, 896}) {
      const std::string name = "swizzled by " + number(swizzle) + " at byte " + number(offset);
      all.push_back(tensor(name, TensorType::F16, {100, 40}, {uint32_t(swizzle / 2), 16}, {40, 30},
                           uint8_t(swizzle), false, offset));
    }
  all.push_back(tensor("32 bytes swizzled by 128 at byte 384", TensorType::F16, {70, 20}, {16, 16},
                       {40, 8}, 128, false, 384));
  return all;
}

// A kernel on a tensor, with `mostBytes` that it writes and as many that it reads.
class TileKernel {
public:
  // The tensor in memory starts as `bytes`.
  TileKernel(const Tensor &of, const std::string &text, const std::vector<unsigned char> &bytes,
             uint64_t seed = 0, const std::vector<unsigned char> &in = {})
      : map(of.map), runner(withLines(text)), bytes(bytes.size()) {
    runner.shape.block[0] = 128;
    runner.shape.sharedBytes = 16384 + 16;
    runner.options.seed = seed;
    runner.chipTarget = "sm_90a";
    memory = runner.upload(bytes);
    written = runner.upload(std::vector<unsigned char>(mostBytes));
    read = runner.upload(in.empty() ? std::vector<unsigned char>(mostBytes) : in);
    map.address = reinterpret_cast<uint64_t>(memory);
    map = TensorMap::encode(map);
  }

  LaunchResult run() { return runner.run(map, written, read); }
  // Here, and where there is a chip, there.
  Counters expectClean() { return runner.expectClean(map, written, read); }

  std::vector<unsigned char> tensor() const { return {memory, memory + bytes}; }
  std::vector<unsigned char> out() const { return {written, written + mostBytes}; }

  TensorMap map;

private:
  Runner runner;
  size_t bytes;
  unsigned char *memory, *written, *read;
};

std::vector<unsigned char> pattern(size_t bytes, unsigned step = 7) {
  std::vector<unsigned char> values(bytes);
  for (size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<unsigned char>(i * step + i / 251);
  return values;
}

// NaN has many encodings, and nobody says which of them fills what is outside: kernels and tests
// replace each by this one. Zeros for types without.
struct NaN {
  uint64_t infinity, all;

  explicit NaN(TensorType type) {
    const int mantissa = type == TensorType::F16    ? 10
                         : type == TensorType::BF16 ? 7
                         : type == TensorType::F32  ? 23
                                                    : 52;
    const auto bits = int(8 * bytesOf(type));
    all = ~uint64_t(0) >> (65 - bits);
    infinity = all >> mantissa << mantissa;
  }
  // For the bytes of an element.
  void replace(unsigned char *element, unsigned width) const {
    uint64_t word = 0;
    std::memcpy(&word, element, width);
    if ((word & all) > infinity)
      std::memcpy(element, &all, width);
  }
  // From %v to %c.
  std::string text(unsigned width) const {
    const std::string count = number(16 / int(width)), bits = "i" + number(8 * int(width)),
                      type = "<" + count + " x " + bits + ">";
    auto splat = [&](uint64_t value) {
      return "splat (" + bits + " " + std::to_string(value) + ")";
    };
    return "  %b = bitcast <4 x i32> %v to " + type + "\n  %magnitude = and " + type + " %b, " +
           splat(all) + "\n  %isNaN = icmp ugt " + type + " %magnitude, " + splat(infinity) +
           "\n  %one = select <" + count + " x i1> %isNaN, " + type + " " + splat(all) + ", " +
           type + " %b\n  %c = bitcast " + type + " %one to <4 x i32>\n";
  }
};

class LoadedTile : public ::testing::TestWithParam<Tensor> {};

TEST_P(LoadedTile, MatchesALoop) {
  const Tensor &of = GetParam();
  const std::vector<unsigned char> bytes = pattern(of.bytes());
  const auto width = unsigned(of.elementBytes());
  std::vector<unsigned char> expected(mostBytes), covered(mostBytes);
  of.eachElement(true, [&](int to, int64_t from) {
    ASSERT_LE(to + int(width), mostBytes);
    unsigned char *element = &expected[size_t(to)];
    if (from >= 0)
      std::copy_n(&bytes[size_t(from)], width, element);
    else if (of.map.fillsWithNaN)
      std::memset(element, 0xff, width);
    if (of.map.fillsWithNaN)
      NaN(of.map.type).replace(element, width);
    covered[size_t(to / 16 * 16)] = 1;
  });
  std::string text = loadText(of.coordinates, of.boxElements() * of.elementBytes(), of.offset);
  // Only what the box covers is there: chunks that the host marks.
  text = replaced(text, "  ; AFTER\n", R"(
  %mark = load i32, ptr addrspace(1) %q, align 16
  %covered = icmp ne i32 %mark, 0
  br i1 %covered, label %copy, label %end
end:
  ret void
copy:
)");
  if (of.map.fillsWithNaN)
    text = replaced(text, "  store <4 x i32> %v",
                    NaN(of.map.type).text(width) + "  store <4 x i32> %c");
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    TileKernel kernel(of, text, bytes, seed, covered);
    kernel.expectClean();
    const std::vector<unsigned char> out = kernel.out();
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], expected[i]) << "seed " << seed << ", byte " << i;
  }
}

class StoredTile : public ::testing::TestWithParam<Tensor> {};

TEST_P(StoredTile, MatchesALoop) {
  const Tensor &of = GetParam();
  const std::vector<unsigned char> before = pattern(of.bytes(), 3), in = pattern(mostBytes);
  std::vector<unsigned char> expected = before;
  of.eachElement(false, [&](int at, int64_t to) {
    if (to >= 0)
      std::copy_n(in.begin() + at, of.elementBytes(), expected.begin() + to);
  });
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    TileKernel kernel(of, storeText(of.coordinates, "s2g", of.offset), before, seed, in);
    kernel.expectClean();
    ASSERT_EQ(kernel.tensor(), expected) << "seed " << seed;
  }
}

// Only loads may begin before the tensor does.
std::vector<Tensor> storedTensors() {
  std::vector<Tensor> stored = tensors();
  std::erase_if(stored, [](const Tensor &of) {
    return *std::min_element(of.coordinates.begin(), of.coordinates.end()) < 0;
  });
  return stored;
}

std::string testName(const ::testing::TestParamInfo<Tensor> &info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Tensors, LoadedTile, ::testing::ValuesIn(tensors()), testName);
INSTANTIATE_TEST_SUITE_P(Tensors, StoredTile, ::testing::ValuesIn(storedTensors()), testName);

template <class Number>
void expectReduction(TensorType type, const std::string &operation,
                     const std::function<Number(Number, Number)> &combine,
                     const std::function<Number(size_t)> &value) {
  const Tensor of = tensor("reduced", type, {64 / sizeof(Number), 16}, {64 / sizeof(Number), 16},
                           {int(16 / sizeof(Number)), 3}, 64);
  std::vector<unsigned char> before(of.bytes()), in(mostBytes);
  auto fill = [&](std::vector<unsigned char> &bytes, size_t shift) {
    for (size_t i = 0; i < bytes.size() / sizeof(Number); ++i) {
      const Number number = value(i * 5 + shift);
      std::memcpy(&bytes[i * sizeof(Number)], &number, sizeof(Number));
    }
  };
  fill(before, 0);
  fill(in, 3);
  std::vector<unsigned char> expected = before;
  of.eachElement(false, [&](int at, int64_t to) {
    if (to < 0)
      return;
    Number here, there;
    std::memcpy(&here, &in[size_t(at)], sizeof here);
    std::memcpy(&there, &before[size_t(to)], sizeof there);
    there = combine(there, here);
    std::memcpy(&expected[size_t(to)], &there, sizeof there);
  });
  SCOPED_TRACE("reduction " + operation + " of type " + number(int(type)));
  TileKernel kernel(of, storeText(of.coordinates, "reduce." + operation), before, 0, in);
  kernel.expectClean();
  EXPECT_EQ(kernel.tensor(), expected);
}

TEST(TileReduction, MatchesALoop) {
  expectReduction<float>(
      TensorType::F32, "add", [](float a, float b) { return a + b; },
      [](size_t i) { return float(i % 31) - 15.5f; });
  expectReduction<double>(
      TensorType::F64, "add", [](double a, double b) { return a + b; },
      [](size_t i) { return double(i % 31) - 15.5; });
  for (bool isMin : {false, true}) {
    const std::string operation = isMin ? "min" : "max";
    expectReduction<int32_t>(
        TensorType::S32, operation,
        [=](int32_t a, int32_t b) { return isMin ? std::min(a, b) : std::max(a, b); },
        [](size_t i) { return int32_t(i * 2654435761u); });
    expectReduction<uint64_t>(
        TensorType::U64, operation,
        [=](uint64_t a, uint64_t b) { return isMin ? std::min(a, b) : std::max(a, b); },
        [](size_t i) { return i * 0x9e3779b97f4a7c15u; });
    expectReduction<uint16_t>(
        TensorType::F16, operation,
        [=](uint16_t a, uint16_t b) {
          return (floatFromHalf(a) < floatFromHalf(b)) == isMin ? a : b;
        },
        [](size_t i) { return halfFromFloat(float(i % 61) - 30.25f); });
  }
  expectReduction<uint16_t>(
      TensorType::F16, "add",
      [](uint16_t a, uint16_t b) { return halfFromFloat(floatFromHalf(a) + floatFromHalf(b)); },
      [](size_t i) { return halfFromFloat(float(i % 61) / 3); });
  expectReduction<uint16_t>(
      TensorType::BF16, "add",
      [](uint16_t a, uint16_t b) {
        return bfloatFromFloat(floatFromBfloat(a) + floatFromBfloat(b));
      },
      [](size_t i) { return bfloatFromFloat(float(i % 61) / 3); });
  auto word = [](size_t i) { return uint32_t(i * 2654435761u >> 28); };
  expectReduction<uint32_t>(
      TensorType::U32, "inc", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }, word);
  expectReduction<uint32_t>(
      TensorType::U32, "dec", [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; },
      word);
  expectReduction<uint32_t>(
      TensorType::U32, "and", [](uint32_t a, uint32_t b) { return a & b; }, word);
  expectReduction<uint32_t>(
      TensorType::U32, "or", [](uint32_t a, uint32_t b) { return a | b; }, word);
  expectReduction<uint32_t>(
      TensorType::U32, "xor", [](uint32_t a, uint32_t b) { return a ^ b; }, word);
}

TEST(TileReduction, OnlyOfTypesThatPtxHas) {
  const Tensor of = tensor("floats", TensorType::F32, {16, 16}, {16, 16}, {0, 0});
  const LaunchResult result =
      TileKernel(of, storeText({0, 0}, "reduce.max"), pattern(of.bytes())).run();
  ASSERT_TRUE(result.finding);
  EXPECT_EQ(result.finding->kind, FindingKind::BadOperand) << result.finding->text();
}

TEST(TensorMaps, RefuseWhatTheDriverRefuses) {
  const TensorMap good = tensor("good", TensorType::F16, {64, 32}, {64, 16}, {0, 0}, 128).map;
  EXPECT_NO_THROW((void)TensorMap::encode(good));
  auto refuses = [&](const std::function<void(TensorMap &)> &spoil, const char *why) {
    TensorMap map = good;
    spoil(map);
    try {
      (void)TensorMap::encode(map);
      ADD_FAILURE() << why;
    } catch (const std::invalid_argument &error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refuses([](TensorMap &map) { map.rank = 0; }, "rank");
  refuses([](TensorMap &map) { map.rank = 6; }, "rank");
  refuses([](TensorMap &map) { map.address = 8; }, "address");
  refuses([](TensorMap &map) { map.extents[1] = 0; }, "extent");
  refuses([](TensorMap &map) { map.extents[0] = (uint64_t(1) << 32) + 1; }, "extent");
  refuses([](TensorMap &map) { map.box[1] = 257; }, "box");
  refuses([](TensorMap &map) { map.box[1] = 0; }, "box");
  refuses([](TensorMap &map) { map.steps[1] = 0; }, "step");
  refuses([](TensorMap &map) { map.steps[1] = 9; }, "step");
  refuses([](TensorMap &map) { map.strides[0] = 136; }, "stride");
  refuses([](TensorMap &map) { map.strides[0] = uint64_t(1) << 40; }, "stride");
  refuses([](TensorMap &map) { map.box[0] = 4; }, "multiple of 16");
  refuses([](TensorMap &map) { map.swizzle = 16; }, "swizzle");
  refuses([](TensorMap &map) { map.swizzle = 64; }, "wider");
  refuses([](TensorMap &map) { map.box[0] = 128; }, "wider");
  refuses(
      [](TensorMap &map) {
        map.type = TensorType::U16;
        map.fillsWithNaN = true;
      },
      "NaN");
}

// A plane of 32 by 32 halves, all of which the box covers.
const Tensor square = tensor("square", TensorType::F16, {32, 32}, {32, 32}, {0, 0}, 64);
const std::string load = loadText({0, 0}, 2048), store = storeText({0, 0}, "s2g");

Finding expectMistake(const std::string &text, FindingKind kind, uint32_t line,
                      const Tensor &of = square) {
  Finding last;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const LaunchResult result = TileKernel(of, text, pattern(2048), seed).run();
    EXPECT_TRUE(result.finding) << "expected a " << kindName(kind) << ", seed " << seed;
    if (!result.finding)
      return last;
    last = *result.finding;
    EXPECT_EQ(kindName(last.kind), std::string(kindName(kind))) << last.text();
    if (line) {
      EXPECT_EQ(last.line, line) << last.text();
    }
  }
  return last;
}

void expectClean(const std::string &text) {
  for (uint64_t seed = 0; seed < seeds; ++seed)
    TileKernel(square, text, pattern(2048), seed).expectClean();
}

const char mbarrierWait[] =
    "  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %bar, i32 0) ;; 15\n";
const char proxyFence[] = "  call void @llvm.nvvm.fence.proxy.async() ;; 11\n";

TEST(TileOrder, CorrectKernelsAreClean) {
  expectClean(load);
  expectClean(store);
  const Counters counters = TileKernel(square, load, pattern(2048)).run().counters;
  EXPECT_EQ(counters.asyncCopy.requests, 1u);
  EXPECT_EQ(counters.asyncCopy.bytes, 2048u);
  EXPECT_EQ(counters.asyncCopy.sectors, 64u);
  EXPECT_EQ(counters.asyncCopy.idealSectors, 64u);
}

TEST(TileOrder, MissingWaitIsFound) {
  expectMistake(replaced(load, mbarrierWait, ""), FindingKind::MissingWait, 16);
  // Where nothing reads what has come, at the end.
  std::string text = replaced(load, mbarrierWait, "");
  text = replaced(text, "  %v = load <4 x i32>, ptr addrspace(3) %s, align 16 ;; 16\n", "");
  text = replaced(text, "store <4 x i32> %v", "store <4 x i32> zeroinitializer");
  expectMistake(text, FindingKind::MissingWait, 13);
}

TEST(TileOrder, WrongBytesNeverComplete) {
  std::string message =
      expectMistake(replaced(load, "%bar, i32 2048) ;; 12", "%bar, i32 4096) ;; 12"),
                    FindingKind::Deadlock, 15)
          .message;
  EXPECT_NE(message.find("2048 bytes"), std::string::npos) << message;
  message = expectMistake(replaced(load, "%bar, i32 2048) ;; 12", "%bar, i32 1024) ;; 12"),
                          FindingKind::Deadlock, 15)
                .message;
  EXPECT_NE(message.find("1024 bytes have come unexpected"), std::string::npos) << message;
}

TEST(TileOrder, TheMbarrierIsToBeFenced) {
  expectMistake(replaced(load, proxyFence, ""), FindingKind::MissingProxyFence, 13);
  expectClean(
      replaced(load, proxyFence, "  call void @llvm.nvvm.fence.mbarrier_init.release.cluster()\n"));
}

TEST(TileOrder, ALoadMayNotOverwriteWhatIsRead) {
  // A second load into the same place, at once, after a barrier alone, and after a fence and that.
  const std::string again = R"(
  br i1 %first, label %reload, label %done
reload:
  %state2 = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 2048)
  %to2 = addrspacecast ptr addrspace(3) @sectile_shared to ptr addrspace(7)
  call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7) %to2, ptr addrspace(3) %bar, ptr %map, i32 0, i32 0, i16 0, i64 0, i1 false, i1 false, i32 0) ;; 20
  br label %done
done:
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %bar, i32 1)
  ret void
)";
  const std::string barrier = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n",
                    fence = "  call void @llvm.nvvm.fence.proxy.async()\n";
  const std::string text = replaced(load, "  ret void\n", again);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const LaunchResult result = TileKernel(square, text, pattern(2048), seed).run();
    ASSERT_TRUE(result.finding) << "seed " << seed;
    // Who reads last sees that the copy has not landed; the thread that asks for it has read
    // itself.
    EXPECT_TRUE(result.finding->kind == FindingKind::SharedRace ||
                result.finding->kind == FindingKind::MissingWait ||
                result.finding->kind == FindingKind::MissingProxyFence)
        << result.finding->text();
  }
  const Finding finding = expectMistake(replaced(load, "  ret void\n", barrier + again),
                                        FindingKind::MissingProxyFence, 20);
  EXPECT_NE(finding.message.find(" read without a fence.proxy.async"), std::string::npos)
      << finding.message;
  // One thread's fence is not that of the others.
  expectMistake(
      replaced(load, "  ret void\n", barrier + replaced(again, "reload:\n", "reload:\n" + fence)),
      FindingKind::MissingProxyFence, 20);
  expectClean(replaced(load, "  ret void\n", fence + barrier + again));
}

TEST(TileOrder, WhatThreadsWroteIsToBeFenced) {
  expectMistake(replaced(store, proxyFence, ""), FindingKind::MissingProxyFence, 13);
  expectMistake(
      replaced(store, "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 12\n", ""),
      FindingKind::SharedRace, 0);
}

TEST(TileOrder, AStoreIsToHaveReadBeforeItsSourceChanges) {
  const std::string write =
      "  store <4 x i32> zeroinitializer, ptr addrspace(3) %s, align 16 ;; 20\n";
  const char wait[] = "  call void @llvm.nvvm.cp.async.bulk.wait.group.read(i32 0) ;; 15\n";
  expectClean(replaced(store, "  ; AFTER\n", write));
  expectMistake(replaced(store, wait, write + std::string(wait)), FindingKind::SharedRace, 20);
  // Nor may a thread end before.
  expectMistake(replaced(store, wait, ""), FindingKind::MissingWait, 13);
  expectMistake(replaced(store, "  call void @llvm.nvvm.cp.async.bulk.commit.group() ;; 14\n", ""),
                FindingKind::MissingWait, 13);
  expectMistake(replaced(store, "wait.group.read(i32 0)", "wait.group.read(i32 1)"),
                FindingKind::MissingWait, 13);
}

TEST(TileOrder, AWaitForReadsIsNoneForWrites) {
  // The thread reads back what it has stored. After the full wait it is there; after a wait for the
  // reads it may not be, and with seed 0 is not.
  for (bool reads : {false, true}) {
    std::string text = replaced(store, "  ; AFTER\n", R"(
  %from = getelementptr i8, ptr %map, i32 8
  %address = load ptr addrspace(1), ptr %from, align 8
  %w = load volatile i32, ptr addrspace(1) %address, align 4
  store i32 %w, ptr addrspace(1) %out, align 4
)");
    if (!reads)
      text = replaced(text, "wait.group.read(i32 0)", "wait.group(i32 0)");
    const std::vector<unsigned char> in = pattern(2048, 11);
    TileKernel kernel(square, text, std::vector<unsigned char>(2048), 0, in);
    const LaunchResult result = kernel.run();
    ASSERT_FALSE(result.finding) << result.finding->text();
    EXPECT_EQ(std::equal(in.begin(), in.begin() + 4, kernel.out().begin()), !reads);
  }
}

TEST(TileOrder, AccessesStayInsideAllocations) {
  Tensor larger = square;
  larger.map.extents[1] = 33;
  larger.coordinates = {0, 1};
  expectMistake(loadText(larger.coordinates, 2048), FindingKind::OutOfBounds, 13, larger);
  expectMistake(storeText(larger.coordinates, "s2g"), FindingKind::OutOfBounds, 13, larger);
}

TEST(TileOrder, TilesAreAligned) {
  expectMistake(loadText({0, 0}, 2048, 64), FindingKind::Misaligned, 13);
}

TEST(TileOrder, RowsAreTakenInPiecesOf16Bytes) {
  for (int at : {1, 4, 15, -1, -12}) {
    expectMistake(loadText({at, 0}, 2048), FindingKind::Misaligned, 13);
    expectMistake(storeText({at, 0}, "s2g"), FindingKind::Misaligned, 13);
    expectMistake(storeText({at, 0}, "reduce.add"), FindingKind::Misaligned, 13);
  }
}

TEST(TileOrder, StoresBeginWithinTheTensor) {
  for (const std::vector<int> &at : {std::vector{-8, 0}, {0, -1}, {0, -32}})
    for (const char *operation : {"s2g", "reduce.add"})
      expectMistake(storeText(at, operation), FindingKind::BadOperand, 13);
}

TEST(TileOrder, MapsAreMaps) {
  TileKernel broken(square, load, pattern(2048));
  broken.map.magic = 0;
  const LaunchResult result = broken.run();
  ASSERT_TRUE(result.finding);
  EXPECT_EQ(result.finding->kind, FindingKind::BadOperand) << result.finding->text();
  expectMistake(loadText({0, 0, 0}, 2048), FindingKind::BadOperand, 13);
}

// Bulk copies of bytes: half of `in` by way of shared memory to `out`.
const std::string bulk = std::string(nvidiaHead) + R"(
declare void @sectile.nv.mbarrier_wait(ptr addrspace(3), i32) convergent
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %in) {
entry:
  %bar = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 1024
  %from = getelementptr i8, ptr addrspace(1) %in, i32 16
  %to = addrspacecast ptr addrspace(3) @sectile_shared to ptr addrspace(7)
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 1)
  call void @llvm.nvvm.fence.proxy.async()
  call void @llvm.nvvm.cp.async.bulk.global.to.shared.cluster(ptr addrspace(7) %to, ptr addrspace(3) %bar, ptr addrspace(1) %from, i32 512, i16 0, i64 0, i1 false, i1 false) ;; 10
  %state = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 512)
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %bar, i32 0)
  call void @llvm.nvvm.cp.async.bulk.shared.cta.to.global(ptr addrspace(1) %out, ptr addrspace(3) @sectile_shared, i32 512, i64 0, i1 false) ;; 11
  call void @llvm.nvvm.cp.async.bulk.commit.group()
  call void @llvm.nvvm.cp.async.bulk.wait.group(i32 0)
  ret void
}
)";

TEST(BulkCopy, GoesThroughSharedMemory) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner(withLines(bulk));
    runner.shape.block[0] = 1;
    runner.shape.sharedBytes = 1032;
    runner.options.seed = seed;
    runner.chipTarget = "sm_90a";
    const std::vector<unsigned char> in = pattern(1024);
    auto *out = runner.upload(std::vector<unsigned char>(512));
    const Counters counters = runner.expectClean(out, runner.upload(in));
    EXPECT_TRUE(std::equal(out, out + 512, in.begin() + 16));
    EXPECT_EQ(counters.asyncCopy.sectors, 17u);
    EXPECT_EQ(counters.globalStore.sectors, 16u);
  }
}

TEST(BulkCopy, CountsSixteens) {
  Runner runner(withLines(replaced(bulk, "%from, i32 512", "%from, i32 520")));
  runner.shape.block[0] = 1;
  runner.shape.sharedBytes = 1032;
  runner.expectFinding(FindingKind::BadOperand, 10, runner.allocate<unsigned char>(512),
                       runner.upload(pattern(1024)));
}

// Tiles that TMA has swizzled are what wgmma takes: a row-major product of 64 by 64 by 64.
TEST(TileOrder, FeedsWgmma) {
  std::string sums, types, arguments, waited;
  for (int i = 0; i < 32; ++i) {
    types += (i ? ", float" : "float");
    arguments += "float 0.0, ";
  }
  std::string text = std::string(nvidiaHead) + "%sums = type { " + types + " }\n" + R"(
declare void @sectile.nv.mbarrier_wait(ptr addrspace(3), i32) convergent
declare %sums @sectile.nv.wgmma.m64n64k16.f32.f16.f16.ss.00()" +
                     types + R"(, i64, i64, i1) convergent
declare %sums @sectile.nv.wgmma_wait.0.32f32()" +
                     types + R"() convergent
define ptx_kernel void @k(ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %a, ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %b, ptr addrspace(1) %out) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %bar = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 16384
  %first = icmp eq i32 %i, 0
  br i1 %first, label %load, label %ready
load:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 1)
  call void @llvm.nvvm.fence.proxy.async()
  %state = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 16384)
  %ta = addrspacecast ptr addrspace(3) @sectile_shared to ptr addrspace(7)
  %second = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 8192
  %tb = addrspacecast ptr addrspace(3) %second to ptr addrspace(7)
  call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7) %ta, ptr addrspace(3) %bar, ptr %a, i32 0, i32 0, i16 0, i64 0, i1 false, i1 false, i32 0)
  call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7) %tb, ptr addrspace(3) %bar, ptr %b, i32 0, i32 0, i16 0, i64 0, i1 false, i1 false, i32 0)
  br label %ready
ready:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %bar, i32 0)
  %base = ptrtoint ptr addrspace(3) @sectile_shared to i64
  %start = lshr i64 %base, 4
  %da0 = or i64 %start, 4611686293305360384
  call void @llvm.nvvm.wgmma.fence.sync.aligned()
)";
  for (int step = 0; step < 4; ++step) {
    const std::string n = number(step);
    if (step)
      text += "  %da" + n + " = add i64 %da0, " + number(2 * step) + "\n";
    text += "  %db" + n + " = add i64 %da" + n + ", 512\n  %d" + n +
            " = call %sums @sectile.nv.wgmma.m64n64k16.f32.f16.f16.ss.00(" + arguments + "i64 %da" +
            n + ", i64 %db" + n + ", i1 " + (step ? "true" : "false") + ")\n";
    arguments.clear();
    for (int i = 0; i < 32; ++i) {
      const std::string name = "%e" + n + "." + number(i);
      text += "  " + name + " = extractvalue %sums %d" + n + ", " + number(i) + "\n";
      arguments += "float " + name + ", ";
    }
  }
  text += "  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()\n  %w = call %sums "
          "@sectile.nv.wgmma_wait.0.32f32(" +
          arguments.substr(0, arguments.size() - 2) +
          ")\n  %p = getelementptr %sums, ptr addrspace(1) %out, i32 %i\n  store %sums %w, ptr "
          "addrspace(1) %p, align 4\n  ret void\n}\n";
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner(text);
    runner.shape.block[0] = 128;
    runner.shape.sharedBytes = 16384 + 8;
    runner.options.seed = seed;
    runner.chipTarget = "sm_90a";
    std::vector<uint16_t> a(64 * 64), b(64 * 64);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = halfFromFloat(float(int(i * 7 % 11) - 5));
      b[i] = halfFromFloat(float(int(i * 5 % 13) - 6));
    }
    auto map = [&](uint16_t *memory) {
      TensorMap result = tensor("operand", TensorType::F16, {64, 64}, {64, 64}, {0, 0}, 128).map;
      result.address = reinterpret_cast<uint64_t>(memory);
      return TensorMap::encode(result);
    };
    auto *out = runner.allocate<float>(64 * 64);
    runner.expectClean(map(runner.upload(a)), map(runner.upload(b)), out);
    for (int thread = 0; thread < 128; ++thread)
      for (int i = 0; i < 32; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2),
                  column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        float expected = 0;
        for (int k = 0; k < 64; ++k)
          expected +=
              floatFromHalf(a[size_t(row * 64 + k)]) * floatFromHalf(b[size_t(column * 64 + k)]);
        ASSERT_EQ(out[thread * 32 + i], expected) << "row " << row << ", column " << column;
      }
  }
}

TEST(TileOrder, Assembles) {
  if (!sectile::findPtxas())
    GTEST_SKIP() << "no ptxas";
  const sectile::Target target = llvm::cantFail(sectile::Target::get("sm_90a"));
  for (const std::string &text : {load, store, bulk, storeText({0, 0, 0}, "reduce.add")}) {
    std::string entry;
    const std::string ptx = assemble(text, target, entry);
    EXPECT_NE(ptx.find("cp."), std::string::npos) << ptx;
    auto result = sectile::runPtxas(ptx, target);
    EXPECT_TRUE(bool(result)) << llvm::toString(result.takeError()) << ptx;
  }
}

} // namespace
