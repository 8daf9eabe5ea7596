// A sequence gets pages for its whole prompt when it joins, and one page at a time afterwards. If
// none is left, the youngest sequence gives up its pages and waits; it computes its keys again when
// there is room. The oldest never gives way, so every text becomes complete.
#include "Batcher.h"
#include <algorithm>
#include <stdexcept>
#include <string>

namespace decoder {

Batcher::Batcher(const BatchLimits &limits) : limits_(limits) {
  if (std::min({limits.sequences, limits.page, limits.pages, limits.context}) < 1)
    throw std::runtime_error("a batch needs a sequence, a page with keys, and a context");
  if (limits.tokens < limits.sequences)
    throw std::runtime_error("a step of " + std::to_string(limits.tokens) +
                             " tokens is too small for " + std::to_string(limits.sequences) +
                             " sequences, which have a token each");
  // The last is taken first.
  for (std::int64_t i = limits.pages; i-- > 0;)
    free_.push_back(static_cast<std::int32_t>(i));
}

std::int64_t Batcher::pagesFor(std::int64_t keys) const {
  return (keys + limits_.page - 1) / limits_.page;
}

void Batcher::add(std::size_t number, const Request &request) {
  const auto refuse = [&](const std::string &why) {
    throw std::runtime_error("prompt " + std::to_string(number + 1) + " " + why);
  };
  if (request.prompt.empty())
    refuse("has no tokens");
  if (request.tokens < 1)
    refuse("asks for no tokens");
  // The last token's keys are never needed.
  const std::int64_t keys = static_cast<std::int64_t>(request.prompt.size()) + request.tokens - 1;
  if (keys > limits_.context)
    refuse("becomes " + std::to_string(keys) + " tokens long; the context has " +
           std::to_string(limits_.context));
  if (pagesFor(keys) > limits_.pages)
    refuse("needs " + std::to_string(pagesFor(keys)) + " pages of the cache, which has " +
           std::to_string(limits_.pages));
  waiting_.push_back(std::make_unique<Sequence>(Sequence{.request = number,
                                                         .tokens = request.prompt,
                                                         .pages = {},
                                                         .left = request.tokens,
                                                         .temperature = request.temperature,
                                                         .seed = request.seed}));
}

// Pages for so many keys, which must be free.
void Batcher::take(Sequence &sequence, std::int64_t keys) {
  while (static_cast<std::int64_t>(sequence.pages.size()) < pagesFor(keys)) {
    sequence.pages.push_back(free_.back());
    free_.pop_back();
  }
}

void Batcher::giveBack(Sequence &sequence) {
  free_.insert(free_.end(), sequence.pages.rbegin(), sequence.pages.rend());
  sequence.pages.clear();
  sequence.cached = 0;
}

// A page for the next key. False if the sequence itself, the youngest, had to give way.
bool Batcher::makeRoom(Sequence &sequence) {
  while (free_.empty() && pagesFor(sequence.cached + 1) > std::ssize(sequence.pages)) {
    std::unique_ptr<Sequence> youngest = std::move(running_.back());
    running_.pop_back();
    giveBack(*youngest);
    ++evictions_;
    const bool itself = youngest.get() == &sequence;
    waiting_.push_front(std::move(youngest));
    if (itself)
      return false;
  }
  take(sequence, sequence.cached + 1);
  return true;
}

void Batcher::admit() {
  while (!waiting_.empty() && std::ssize(running_) < limits_.sequences) {
    Sequence &sequence = *waiting_.front();
    const std::int64_t keys = std::ssize(sequence.tokens);
    // A page more for each that runs: else whoever comes would soon be evicted again. With nothing
    // running all pages are free, and add() has seen that these are enough.
    if (pagesFor(keys) + std::ssize(running_) > std::ssize(free_))
      return;
    take(sequence, keys);
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

std::span<const Part> Batcher::plan() {
  parts_.clear();
  const std::int64_t before = evictions_;
  // Sequences that are evicted here are younger than the one that needs a page, so none of them has
  // a part yet.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence &sequence = *running_[i];
    if (std::ssize(sequence.tokens) - sequence.cached == 1 && makeRoom(sequence))
      parts_.push_back({&sequence, 1});
  }
  if (evictions_ == before)
    admit();
  std::int64_t room = limits_.tokens - std::ssize(parts_);
  for (const auto &sequence : running_) {
    const std::int64_t count = std::min(std::ssize(sequence->tokens) - sequence->cached, room);
    const bool decodes = std::ranges::any_of(
        parts_, [&](const Part &part) { return part.sequence == sequence.get(); });
    if (count < 1 || decodes)
      continue;
    parts_.push_back({sequence.get(), count});
    room -= count;
  }
  return parts_;
}

void Batcher::finish(std::span<const std::int32_t> tokens, std::span<const std::int32_t> stops) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Sequence &sequence = *parts_[i].sequence;
    const bool gives = parts_[i].gives();
    sequence.cached += parts_[i].count;
    if (!gives)
      continue;
    sequence.tokens.push_back(tokens[i]);
    --sequence.left;
    if (std::ranges::find(stops, tokens[i]) != stops.end())
      sequence.left = 0;
    if (sequence.left == 0)
      giveBack(sequence);
  }
  std::erase_if(running_, [](const auto &sequence) { return sequence->left == 0; });
  parts_.clear();
}

} // namespace decoder
