// Streams, events and graphs: handles over what the device's back end keeps.
#include "runtime/DeviceImpl.h"

namespace sectile {

Stream Stream::wrap(const Device &device, void *native) {
  return Stream(std::make_shared<runtime::StreamImpl>(device.impl(), native,
                                                      runtime::StreamOwner::otherLibrary));
}

Device Stream::device() const { return Device(impl_->device); }
void *Stream::native() const { return impl_->handle; }
void Stream::synchronize() const {
  impl_->device->synchronizeStream(impl_->handle);
  impl_->device->debugLogs.report(impl_->handle);
}

Event Stream::record() const {
  auto event = std::make_shared<runtime::EventImpl>(impl_->device);
  event->stream = impl_->handle;
  impl_->device->recordEvent(event->handle, impl_->handle);
  return Event(std::move(event));
}

void Stream::wait(const Event &event) const {
  if (!impl_->device->reaches(*event.impl()->device))
    throw DeviceError("a stream of " + impl_->device->name + " cannot wait for an event of " +
                      event.impl()->device->name);
  impl_->device->waitEvent(impl_->handle, event.impl()->handle);
}

void Stream::begin_capture() const {
  impl_->device->debugLogs.beginCapture(impl_->handle);
  impl_->device->captures.begin(impl_->handle);
}

Graph Stream::end_capture() const {
  runtime::DebugLogs::Log *log = impl_->device->debugLogs.endCapture(impl_->handle);
  void *graph = nullptr;
  try {
    graph = impl_->device->endCapture(impl_->handle);
  } catch (...) { // The driver has ended the capture without a graph.
    impl_->device->captures.end(impl_->handle);
    throw;
  }
  return Graph(std::make_shared<runtime::GraphImpl>(impl_->device, graph, log,
                                                    impl_->device->captures.end(impl_->handle)));
}

Event Event::wrap(const Device &device, void *native) {
  return Event(std::make_shared<runtime::EventImpl>(device.impl(), native));
}

void *Event::native() const { return impl_->handle; }

void Event::synchronize() const {
  impl_->device->synchronizeEvent(impl_->handle);
  impl_->device->debugLogs.report(impl_->stream);
}
bool Event::done() const { return impl_->device->eventDone(impl_->handle); }

float elapsed_ms(const Event &from, const Event &to) {
  if (from.impl()->device != to.impl()->device)
    throw DeviceError("events of two devices have no time between them");
  to.synchronize();
  return to.impl()->device->elapsedMilliseconds(from.impl()->handle, to.impl()->handle);
}

void Graph::launch(const Stream &stream) const {
  if (stream.impl()->device != impl_->device)
    throw DeviceError("a graph of " + impl_->device->name + " cannot run in a stream of " +
                      stream.impl()->device->name);
  if (const auto capture = impl_->device->captures.of(stream.native()))
    impl_->device->captures.keep(*capture, impl_);
  impl_->device->debugLogs.launchGraph(impl_->handle, impl_->log, stream.native());
}

} // namespace sectile
