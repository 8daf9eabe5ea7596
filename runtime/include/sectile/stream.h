// Streams of work on a device, events that mark places in them, and graphs of captured work.
#pragma once
#include <memory>
#include <sectile/device.h>

namespace sectile {

namespace runtime {
struct StreamImpl;
struct EventImpl;
struct GraphImpl;
} // namespace runtime

class Event {
public:
  // An event of another library (a CUevent, a hipEvent_t). It must outlive what this returns.
  static Event wrap(const Device &device, void *native);

  void *native() const;
  void synchronize() const; // waits until the stream has come here
  bool done() const;

  explicit Event(std::shared_ptr<runtime::EventImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<runtime::EventImpl> &impl() const { return impl_; }

private:
  std::shared_ptr<runtime::EventImpl> impl_;
};

// Milliseconds from one event to a later one, of Stream::record_timed(); waits for the later one.
float elapsed_ms(const Event &from, const Event &to);

// Captured work, to be launched as a whole. It keeps the memory and the code that the work uses.
class Graph {
public:
  void launch(const Stream &stream) const;

  explicit Graph(std::shared_ptr<runtime::GraphImpl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<runtime::GraphImpl> impl_;
};

// Work in order. A handle: copies are the same stream, which ends with the last of them.
class Stream {
public:
  // A stream of another library (a CUstream, a hipStream_t). It must outlive what this returns.
  static Stream wrap(const Device &device, void *native);

  Device device() const;
  void *native() const;
  void synchronize() const;
  Event record() const;                // marks the end of what is in the stream now
  Event record_timed() const;          // the same, for elapsed_ms()
  void wait(const Event &event) const; // what comes next starts after the event

  // Between these two, launches, fills and copies on the device are remembered and not run.
  void begin_capture() const;
  Graph end_capture() const;

  explicit Stream(std::shared_ptr<runtime::StreamImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<runtime::StreamImpl> &impl() const { return impl_; }

private:
  std::shared_ptr<runtime::StreamImpl> impl_;
};

} // namespace sectile
