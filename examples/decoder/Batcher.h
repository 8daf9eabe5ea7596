// Continuous batching, on the host alone: which sequences take part in the next step, with how many
// tokens, and which pages of the cache are theirs. Sequences join when there is room and leave when
// their text is complete; a step holds tokens of prompts and of texts side by side.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace decoder {

// A text to be continued.
struct Request {
  std::vector<std::int32_t> prompt;
  std::int64_t tokens; // how many are wanted, at most
  double temperature;  // 0: always the likeliest token
  std::int64_t seed;   // its draws depend on this and on their positions, not on the batch
};

struct BatchLimits {
  std::int64_t sequences; // of one step
  std::int64_t tokens;    // of one step; sequences or more
  std::int64_t page;      // keys of a page
  std::int64_t pages;     // of the cache
  std::int64_t context;   // of the longest sequence
};

struct Sequence {
  std::size_t request;              // its number
  std::vector<std::int32_t> tokens; // the prompt, then the text
  std::vector<std::int32_t> pages;  // of the cache, in order
  std::int64_t cached = 0;          // tokens whose keys are in the cache
  std::int64_t left;                // tokens that are still wanted
  double temperature;
  std::int64_t seed;
};

// Tokens `cached` to cached + count - 1 of a sequence.
struct Part {
  Sequence *sequence;
  std::int64_t count;

  // Whether the step gives the sequence's next token.
  bool gives() const {
    return sequence->cached + count == static_cast<std::int64_t>(sequence->tokens.size());
  }
};

class Batcher {
public:
  explicit Batcher(const BatchLimits &limits);

  // Queues a text. Throws std::runtime_error for one that does not fit the context or the cache.
  void add(std::size_t number, const Request &request);
  // What the next step computes, the sequences with one token first; empty when all texts are
  // complete. The parts are valid until finish(), which must follow.
  std::span<const Part> plan();
  // After the step of these parts: tokens[i] is what part i gives. A sequence that has all its
  // tokens, or one of `stops`, leaves, and its pages are free.
  void finish(std::span<const std::int32_t> tokens, std::span<const std::int32_t> stops);

  // The number of times a sequence had to give its pages to an older one.
  std::int64_t evictions() const { return evictions_; }
  std::size_t freePages() const { return free_.size(); }

private:
  std::int64_t pagesFor(std::int64_t keys) const;
  void take(Sequence &sequence, std::int64_t keys);
  void giveBack(Sequence &sequence);
  bool makeRoom(Sequence &sequence);
  void admit();

  BatchLimits limits_;
  std::vector<std::int32_t> free_; // pages that nobody has
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_; // in the order in which they came
  std::vector<Part> parts_;
  std::int64_t evictions_ = 0;
};

} // namespace decoder
