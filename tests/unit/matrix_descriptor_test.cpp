// Shared layouts that matrix instructions read themselves: every element must lie where the PTX ISA
// says that a descriptor puts it.
#include "ir/layout/Builders.h"
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/TensorBoxes.h"
#include <gtest/gtest.h>

using namespace sectile;

namespace {

/// The byte of an element of a matrix with `rows` of A, or columns of B: PTX ISA, "Canonical
/// layouts", with the chunks of 16 bytes of each 128 permuted by the number of the 128 among eight.
unsigned byteOf(const MatrixDescriptor &of, unsigned bytes, unsigned row, unsigned k) {
  const unsigned perLine = of.swizzle / bytes;
  unsigned place = of.start;
  if (of.alongK)
    place += row / 8 * of.stride + row % 8 * of.swizzle + k * bytes;
  else
    place +=
        k / 8 * of.stride + row / perLine * of.leading + k % 8 * of.swizzle + row % perLine * bytes;
  const unsigned mask = of.swizzle / 16 - 1, line = place / 128 % 8;
  return place ^ (line & mask) * 16;
}

struct Buffer {
  std::vector<int64_t> shape;
  unsigned fastest, bits, line;
};

std::vector<Buffer> buffers() {
  std::vector<Buffer> all;
  for (unsigned line : {128, 64, 32})
    for (unsigned fastest : {0, 1})
      for (unsigned bits : {16, 8})
        for (auto [rows, columns] : {std::pair(64, 32), {64, 64}, {128, 128}, {192, 64}, {64, 96}})
          all.push_back({{rows, columns}, fastest, bits, line});
  return all;
}

TEST(MatrixDescriptor, SaysWhereEveryElementLies) {
  for (const Buffer &buffer : buffers())
    for (unsigned rowDim : {0, 1}) {
      const unsigned bytes = buffer.bits / 8;
      const Layout layout =
          sharedForDescriptors(buffer.shape, buffer.fastest, buffer.bits, buffer.line);
      const LayoutInverse inverse(layout);
      const int64_t rows = 32, k = 32 / bytes;
      for (int64_t row = 0; row < buffer.shape[rowDim]; row += rows)
        for (int64_t column = 0; column < buffer.shape[1 - rowDim]; column += k) {
          auto found = planDescriptor(layout, buffer.bits, rowDim, row, column, rows, k);
          ASSERT_TRUE(found) << layout.text() << " at " << row << ", " << column;
          EXPECT_EQ(found->alongK, buffer.fastest != rowDim);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < k; ++c) {
              Coordinates place{row + r, column + c};
              if (rowDim == 1)
                std::swap(place[0], place[1]);
              ASSERT_EQ(byteOf(*found, bytes, unsigned(r), unsigned(c)),
                        inverse(place)[In::Offset] * bytes)
                  << layout.text() << " at " << row + r << ", " << column + c;
            }
        }
    }
}

TEST(MatrixDescriptor, LinesAreAsLongAsAskedForOrThere) {
  auto lineOf = [](std::vector<int64_t> shape, unsigned asked) {
    return planDescriptor(sharedForDescriptors(shape, 1, 16, asked), 16, 0, 0, 0, 64, 16)->swizzle;
  };
  EXPECT_EQ(lineOf({64, 64}, 128), 128u);
  EXPECT_EQ(lineOf({64, 64}, 64), 64u);
  EXPECT_EQ(lineOf({64, 16}, 128), 32u);
  EXPECT_EQ(lineOf({64, 80}, 128), 32u); // five times 16
}

TEST(MatrixDescriptor, RowsAreOneStrideApart) {
  // 96 rows are three times 32, and each 32 have both panels of their own.
  const Layout panels = sharedForDescriptors({96, 128}, 1, 16, 128);
  EXPECT_TRUE(planDescriptor(panels, 16, 0, 32, 64, 32, 16));
  EXPECT_FALSE(planDescriptor(panels, 16, 0, 0, 0, 96, 16));
  EXPECT_TRUE(planDescriptor(sharedForDescriptors({96, 64}, 1, 16, 128), 16, 0, 0, 0, 96, 16));
}

TEST(MatrixDescriptor, RefusesOtherLayouts) {
  EXPECT_FALSE(planDescriptor(sharedPlain({64, 64}, {1, 0}), 16, 0, 0, 0, 64, 16));
  EXPECT_FALSE(planDescriptor(sharedSwizzled({64, 64}, {1, 0}, 8, 2, 4), 16, 0, 0, 0, 64, 16));
  // Not from a row within a group of eight.
  const Layout lines = sharedForDescriptors({64, 64}, 1, 16, 128);
  EXPECT_FALSE(planDescriptor(lines, 16, 0, 4, 0, 32, 16));
}

// Lines of a box one after another, their chunks of 16 bytes permuted by the number of the 128
// bytes among eight: CUDA C++ Programming Guide, "Shared memory bank swizzling".
TEST(TensorBoxes, SaysWhereEveryElementLies) {
  unsigned planned = 0;
  for (const Buffer &buffer : buffers()) {
    const int64_t bytes = buffer.bits / 8;
    const Layout layout =
        sharedForDescriptors(buffer.shape, buffer.fastest, buffer.bits, buffer.line);
    const std::optional<TensorBoxes> boxes = planTensorBoxes(layout, buffer.bits);
    ASSERT_TRUE(boxes) << layout.text();
    ++planned;
    EXPECT_LE(boxes->rows, 256);
    EXPECT_EQ(int64_t(boxes->boxes.size()) * boxes->line * boxes->rows,
              buffer.shape[0] * buffer.shape[1]);
    const LayoutInverse inverse(layout);
    for (const TensorBoxes::Box &box : boxes->boxes) {
      EXPECT_EQ(box.offset % (8 * boxes->swizzle), 0);
      for (int64_t across = 0; across < boxes->rows; ++across)
        for (int64_t along = 0; along < boxes->line; ++along) {
          int64_t place = box.offset + across * boxes->swizzle + along * bytes;
          place ^= (place / 128 % 8 & (boxes->swizzle / 16 - 1)) * 16;
          Coordinates at{box.across + across, box.along + along};
          if (boxes->fastest == 0)
            std::swap(at[0], at[1]);
          ASSERT_EQ(place, inverse(at)[In::Offset] * bytes)
              << layout.text() << " at " << at[0] << ", " << at[1];
        }
    }
  }
  EXPECT_GT(planned, 20u);
}

TEST(TensorBoxes, HasNoneForOtherLayouts) {
  EXPECT_FALSE(planTensorBoxes(sharedPlain({64, 64}, {1, 0}), 16));
  EXPECT_FALSE(planTensorBoxes(sharedForDescriptors({4, 64}, 1, 16, 128), 16));
}

TEST(TensorBoxes, ARowIsOneOfThem) {
  const auto boxes = planTensorBoxes(sharedPlain({64}, {0}), 32);
  ASSERT_TRUE(boxes);
  EXPECT_EQ(*boxes, (TensorBoxes{0, 0, 64, 1, {{0, 0, 0}}}));
  EXPECT_FALSE(boxes->half());
  EXPECT_FALSE(boxes->hasWholeColumns());
  // Slots that begin between multiples of 128 bytes, and more than the engine copies at once.
  EXPECT_FALSE(planTensorBoxes(sharedPlain({16}, {0}), 32));
  EXPECT_FALSE(planTensorBoxes(sharedPlain({512}, {0}), 16));
}

TEST(TensorBoxes, AreNoTallerThanTheEngineTakes) {
  const auto boxes = planTensorBoxes(sharedForDescriptors({512, 128}, 1, 16, 128), 16);
  ASSERT_TRUE(boxes);
  EXPECT_EQ(*boxes,
            (TensorBoxes{
                1, 128, 64, 256, {{0, 0, 0}, {0, 256, 32768}, {64, 0, 65536}, {64, 256, 98304}}}));
}

} // namespace
