// Terms of visibilities.
#include "tests/fuzz/attention/Terms.h"

namespace sectile::fuzz {

namespace {

class Planter {
public:
  Planter(Draw &draw, const Sizes &sizes, bool packed, bool withBlocks)
      : draw(draw), sizes(sizes), withBlocks(withBlocks) {
    term.shape = {0, sizes.batches(), sizes.mostKeys()};
    term.queries = sizes.mostQueries();
    for (const Length &of : sizes.sequences) {
      term.starts.push_back(packed ? tokens : 0);
      tokens = packed ? tokens + of.queries : term.queries;
    }
    if (withBlocks)
      drawBlocks();
  }
  void drawBlocks() {
    static constexpr int64_t extents[] = {1, 8, 16, 24, 32, 64, 100, 128};
    term.blockQ = draw.oneOf(extents);
    term.blockK = draw.oneOf(extents);
    const auto blocks = [](int64_t extent, int64_t size) { return (extent + size - 1) / size; };
    term.blockShape = {draw.coin() ? sizes.batches() : 1, draw.coin() ? sizes.heads : 1,
                       blocks(sizes.mostQueries(), term.blockQ),
                       blocks(sizes.mostKeys(), term.blockK)};
    int64_t count = 1;
    for (const int64_t extent : term.blockShape)
      count *= extent;
    const size_t density = 1 + draw.pick(4);
    for (int64_t i = 0; i < count; ++i)
      term.blocks.push_back(draw.pick(5) < density);
  }

  int grow(int depth) {
    if (depth == 0 || draw.pick(5) == 0)
      return leaf();
    const int a = grow(depth - 1), b = grow(depth - 1);
    return add({.op = draw.pick(5) < 3 ? SightOp::Both : SightOp::Either, .a = a, .b = b});
  }
  /// A term of its own by its blocks, without those of a mask.
  int listed() {
    static constexpr int64_t extents[] = {16, 32, 32, 48, 64, 96, 128, 128};
    term.listedQ = draw.oneOf(extents);
    term.listedK = draw.oneOf(extents);
    const bool others = std::exchange(withBlocks, false);
    const size_t first = term.nodes.size();
    term.listed = draw.pick(3) == 0 ? grow(2) : leaf(SightOp::Where);
    withBlocks = others;
    const auto depends = [&](auto of) {
      return std::any_of(term.nodes.begin() + ptrdiff_t(first), term.nodes.end(), of);
    };
    const bool byHead = depends([](const SightNode &node) {
      return (node.op == SightOp::Where && node.stripes.head != 0) ||
             (node.op == SightOp::Mask && node.maskShape[1] > 1);
    });
    // Sequences of different lengths have blocks of their own in any case.
    const bool byBatch = depends([](const SightNode &node) {
      switch (node.op) {
      case SightOp::Where:
        return node.stripes.batch != 0;
      case SightOp::KeyMask:
      case SightOp::Mask:
        return node.maskShape[0] > 1;
      case SightOp::Documents:
      case SightOp::Prefix:
      case SightOp::KeyLengths:
      case SightOp::Tree:
        return true;
      default:
        return false;
      }
    });
    term.listedHeads = byHead || draw.coin() ? sizes.heads : 1;
    term.listedBatches = byBatch || draw.coin() ? sizes.batches() : 1;
    return add({.op = SightOp::Listed, .a = term.listed});
  }
  int add(SightNode node) {
    term.nodes.push_back(node);
    return int(term.nodes.size()) - 1;
  }
  int leaf() {
    static constexpr SightOp ops[] = {SightOp::Everything, SightOp::Causal, SightOp::Causal,
                                      SightOp::Window,     SightOp::Window, SightOp::Documents,
                                      SightOp::Documents,  SightOp::Prefix, SightOp::Chunked,
                                      SightOp::KeyLengths, SightOp::Where,  SightOp::KeyMask,
                                      SightOp::Mask,       SightOp::Tree};
    const SightOp op = withBlocks && draw.pick(4) == 0 ? SightOp::Blocks : draw.oneOf(ops);
    const bool asBits = op == SightOp::Tree && (term.queries > mostNodes || draw.coin());
    return leaf(asBits ? SightOp::TokenTree : op);
  }
  int leaf(SightOp op) {
    SightNode node{.op = op, .row = term.shape[0]};
    switch (op) {
    case SightOp::Window: {
      const auto distance = [&] {
        return draw.pick(4) == 0
                   ? std::nullopt
                   : std::optional(draw.number(0, draw.coin() ? 12 : sizes.mostKeys()));
      };
      node.left = distance();
      node.right = distance();
      break;
    }
    case SightOp::Documents:
      addRow();
      addRow();
      for (int64_t b = 0; b < sizes.batches(); ++b)
        drawDocuments(node.row, b);
      break;
    case SightOp::Prefix:
    case SightOp::KeyLengths:
      addRow();
      for (int64_t b = 0; b < sizes.batches(); ++b)
        number(node.row, b, 0) = int32_t(draw.number(0, sizes.sequences[size_t(b)].keys));
      break;
    case SightOp::Chunked:
      node.size = draw.number(1, 70);
      break;
    case SightOp::Where:
      node.stripes = {int32_t(draw.number(0, 3)), int32_t(draw.number(1, 3)),
                      int32_t(draw.number(0, 1)), int32_t(draw.number(0, 1)),
                      int32_t(draw.number(2, 5))};
      break;
    case SightOp::KeyMask:
      drawMask(node, {some(sizes.batches()), 1, 1, sizes.mostKeys()});
      break;
    case SightOp::Mask:
      drawMask(node, {some(sizes.batches()), some(sizes.heads), term.queries, sizes.mostKeys()});
      break;
    case SightOp::Tree:
      node.place = int64_t(term.ancestors.size());
      for (int64_t b = 0; b < sizes.batches(); ++b)
        drawTree();
      break;
    case SightOp::TokenTree:
      node.place = int64_t(term.bits.size());
      // Bits that there are not are not set.
      node.maskShape = {1, 1, tokens, draw.number(1, (term.queries + 31) / 32 + 1)};
      for (int64_t i = 0; i < tokens * node.maskShape[3]; ++i)
        term.bits.push_back(int32_t(draw.pick(size_t(1) << 32)));
      break;
    default:
      break;
    }
    return add(node);
  }

  SightTerm term;

private:
  static constexpr int64_t mostNodes = 64; // that flash::tree takes

  int64_t some(int64_t extent) { return draw.coin() ? extent : 1; }
  // What lies behind a shorter sequence's ends is drawn as well.
  void drawMask(SightNode &node, Shape shape) {
    node.place = int64_t(term.masks.size());
    int64_t count = 1;
    for (const int64_t extent : shape)
      count *= extent;
    node.maskShape = std::move(shape);
    const size_t density = 1 + draw.pick(6);
    for (int64_t i = 0; i < count; ++i)
      term.masks.push_back(draw.pick(6) < density);
  }
  // Each node hangs on an earlier one, or on none; bits of later ones, which no tree has, count
  // too.
  void drawTree() {
    const size_t first = term.ancestors.size();
    for (int64_t i = 0; i < term.queries; ++i) {
      uint64_t bits = uint64_t(1) << i;
      if (i > 0 && draw.pick(5) != 0)
        bits |= term.ancestors[first + draw.pick(size_t(i))];
      if (draw.pick(6) == 0)
        bits ^= uint64_t(1) << draw.pick(mostNodes);
      term.ancestors.push_back(bits);
    }
  }
  void addRow() {
    ++term.shape[0];
    term.numbers.resize(size_t(term.shape[0] * term.shape[1] * term.shape[2]));
  }
  int32_t &number(int64_t row, int64_t batch, int64_t column) {
    return term.numbers[size_t((row * term.shape[1] + batch) * term.shape[2] + column)];
  }
  // What lies behind a sequence's last key stays 0.
  void drawDocuments(int64_t row, int64_t batch) {
    const int64_t keys = sizes.sequences[size_t(batch)].keys;
    for (int64_t start = 0; start < keys;) {
      const int64_t end = std::min(keys, start + draw.number(1, draw.coin() ? keys : 20));
      for (int64_t key = start; key < end; ++key) {
        number(row, batch, key) = int32_t(start);
        number(row + 1, batch, key) = int32_t(end);
      }
      start = end;
    }
  }

  Draw &draw;
  const Sizes &sizes;
  bool withBlocks;
  int64_t tokens = 0; // of all sequences, or of each where all have the same
};

} // namespace

SightTerm drawSight(Draw &draw, const Sizes &sizes, bool packed, bool withLists) {
  const size_t which = withLists ? draw.pick(4) : 0; // none, of a mask or of a term, or of both
  const bool withBlocks = withLists && which != 1;
  Planter planter(draw, sizes, packed, withBlocks);
  int root = planter.grow(int(draw.number(0, 3)));
  if (withLists && which < 2) {
    const int listed = planter.listed();
    root =
        draw.pick(4) == 0 && !withBlocks
            ? listed
            : planter.add(
                  {.op = draw.pick(3) ? SightOp::Both : SightOp::Either, .a = root, .b = listed});
  }
  const auto &nodes = planter.term.nodes;
  if (withBlocks && std::none_of(nodes.begin(), nodes.end(), [](const SightNode &node) {
        return node.op == SightOp::Blocks;
      })) {
    const int blocks = planter.leaf(SightOp::Blocks);
    planter.add({.op = draw.coin() ? SightOp::Both : SightOp::Either, .a = root, .b = blocks});
  }
  return std::move(planter.term);
}

bool SightTerm::sees(size_t at, const Pair &pair) const {
  const SightNode &node = nodes[at];
  const int64_t beside = pair.key + pair.distance;
  switch (node.op) {
  case SightOp::Everything:
    return true;
  case SightOp::Causal:
    return pair.distance >= 0;
  case SightOp::Window:
    return (!node.left || pair.distance <= *node.left) &&
           (!node.right || -pair.distance <= *node.right);
  case SightOp::Documents:
    return beside >= 0 && number(node.row, pair.batch, beside) <= pair.key &&
           pair.key < number(node.row + 1, pair.batch, beside);
  case SightOp::Prefix:
    return pair.distance >= 0 || pair.key < number(node.row, pair.batch, 0);
  case SightOp::Chunked:
    return beside >= 0 && beside / node.size == pair.key / node.size;
  case SightOp::KeyLengths:
    return pair.key < number(node.row, pair.batch, 0);
  case SightOp::KeyMask:
  case SightOp::Mask: {
    const int64_t at[] = {pair.batch, pair.head, pair.query, pair.key};
    int64_t index = 0;
    for (size_t i = 0; i < 4; ++i)
      index = index * node.maskShape[i] + (node.maskShape[i] == 1 ? 0 : at[i]);
    return masks[size_t(node.place + index)] != 0;
  }
  case SightOp::Tree: {
    const int64_t other = pair.query - pair.distance; // the query that the key is beside
    return other < 0 ||
           (ancestors[size_t(node.place + pair.batch * queries + pair.query)] >> other & 1) != 0;
  }
  case SightOp::TokenTree: {
    const int64_t other = pair.query - pair.distance, words = node.maskShape[3],
                  token = starts[size_t(pair.batch)] + pair.query;
    return other < 0 ||
           (other / 32 < words &&
            (uint32_t(bits[size_t(node.place + token * words + other / 32)]) >> other % 32 & 1) !=
                0);
  }
  case SightOp::Blocks: {
    const int64_t b = blockShape[0] == 1 ? 0 : pair.batch, h = blockShape[1] == 1 ? 0 : pair.head;
    return blocks[size_t(((b * blockShape[1] + h) * blockShape[2] + pair.query / blockQ) *
                             blockShape[3] +
                         pair.key / blockK)] != 0;
  }
  case SightOp::Listed:
    return sees(size_t(node.a), pair);
  case SightOp::Where:
    return node.stripes.has(pair);
  case SightOp::Both:
    return sees(size_t(node.a), pair) && sees(size_t(node.b), pair);
  case SightOp::Either:
    return sees(size_t(node.a), pair) || sees(size_t(node.b), pair);
  }
  return false;
}

static std::string describe(const SightTerm &term, int at) {
  const SightNode &node = term.nodes[size_t(at)];
  const auto end = [](const std::optional<int64_t> &of) {
    return of ? std::to_string(*of) : std::string("nullopt");
  };
  // Of each batch the starts of documents, or a length.
  const auto numbers = [&](bool starts) {
    std::string result;
    for (int64_t b = 0; b < term.shape[1]; ++b) {
      result += b ? "; " : "";
      if (!starts)
        result += std::to_string(term.number(node.row, b, 0));
      for (int64_t key = 0; starts && key < term.shape[2]; ++key)
        if (term.number(node.row, b, key) == key && term.number(node.row + 1, b, key) > key)
          result += (key ? " " : "") + std::to_string(key);
    }
    return "(" + result + ")";
  };
  const auto extents = [](const Shape &shape) {
    std::string result;
    for (const int64_t extent : shape)
      result += " " + std::to_string(extent);
    return "[" + result + " ]";
  };
  switch (node.op) {
  case SightOp::Everything:
    return "everything()";
  case SightOp::Causal:
    return "causal()";
  case SightOp::Window:
    return "window(" + end(node.left) + ", " + end(node.right) + ")";
  case SightOp::Documents:
    return "documents" + numbers(true);
  case SightOp::Prefix:
    return "prefix" + numbers(false);
  case SightOp::Chunked:
    return "chunked(" + std::to_string(node.size) + ")";
  case SightOp::KeyLengths:
    return "key_lengths" + numbers(false);
  case SightOp::KeyMask:
    return "key_mask(" + extents(node.maskShape) + ")";
  case SightOp::Mask:
    return "mask(" + extents(node.maskShape) + ")";
  case SightOp::Tree:
    return "tree([ " + std::to_string(term.shape[1]) + " " + std::to_string(term.queries) + " ])";
  case SightOp::TokenTree:
    return "tree(bits" + extents(node.maskShape) + ")";
  case SightOp::Blocks:
    return "block_list(" + extents(term.blockShape) + ", " + std::to_string(term.blockQ) + ", " +
           std::to_string(term.blockK) + ")";
  case SightOp::Listed:
    return "block_list(" + describe(term, node.a) + ", blocks of " + std::to_string(term.listedQ) +
           ", " + std::to_string(term.listedK) + " for " + std::to_string(term.listedBatches) +
           ", " + std::to_string(term.listedHeads) + ")";
  case SightOp::Where:
    return "where(" + describe(node.stripes) + ")";
  case SightOp::Both:
    return "(" + describe(term, node.a) + " && " + describe(term, node.b) + ")";
  case SightOp::Either:
    return "(" + describe(term, node.a) + " || " + describe(term, node.b) + ")";
  }
  return "";
}
std::string describe(const SightTerm &term) { return describe(term, int(term.nodes.size()) - 1); }

SightTerm spoilt(SightTerm term, Draw &draw) {
  SightNode &node = term.nodes[draw.pick(term.nodes.size())];
  switch (node.op) {
  case SightOp::Both:
    node.op = SightOp::Either;
    break;
  case SightOp::Either:
    node.op = SightOp::Both;
    break;
  case SightOp::Everything:
    node.op = SightOp::Causal;
    break;
  case SightOp::Causal:
    node = {.op = SightOp::Window, .right = 1};
    break;
  case SightOp::Window:
    (node.left ? node.left : node.right) = node.left.value_or(node.right.value_or(2)) + 1;
    break;
  case SightOp::Chunked:
    ++node.size;
    break;
  case SightOp::Where:
    ++node.stripes.modulus;
    break;
  case SightOp::Documents:
  case SightOp::Prefix:
  case SightOp::KeyLengths:
  case SightOp::KeyMask:
  case SightOp::Mask:
  case SightOp::Tree:
  case SightOp::TokenTree:
  case SightOp::Blocks:
  case SightOp::Listed:
    node = {.op = SightOp::Causal};
    break;
  }
  return term;
}

} // namespace sectile::fuzz
