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

static Event recordIn(const runtime::StreamImpl &stream, bool timed) {
  auto event = std::make_shared<runtime::EventImpl>(stream.device, timed);
  event->stream = stream.handle;
  stream.device->recordEvent(event->event.handle, stream.handle);
  // Streams of ours that wait for the event take part in what another library captures.
  if (stream.owner == runtime::StreamOwner::otherLibrary)
    stream.device->captures.of(stream);
  return Event(std::move(event));
}

Event Stream::record() const { return recordIn(*impl_, /*timed=*/false); }
Event Stream::record_timed() const { return recordIn(*impl_, /*timed=*/true); }

void Stream::wait(const Event &event) const {
  if (!impl_->device->reaches(*event.impl()->device))
    throw DeviceError("a stream of " + impl_->device->name + " cannot wait for an event of " +
                      event.impl()->device->name);
  impl_->device->waitEvent(impl_->handle, event.impl()->event.handle);
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

void *Event::native() const { return impl_->event.handle; }

void Event::synchronize() const {
  impl_->device->synchronizeEvent(impl_->event.handle);
  impl_->device->debugLogs.report(impl_->stream);
}
bool Event::done() const { return impl_->device->eventDone(impl_->event.handle); }

float elapsed_ms(const Event &from, const Event &to) {
  if (from.impl()->device != to.impl()->device)
    throw DeviceError("events of two devices have no time between them");
  if (!from.impl()->event.timed || !to.impl()->event.timed)
    throw DeviceError("an event has no time: record both with Stream::record_timed");
  to.synchronize();
  return to.impl()->device->elapsedMilliseconds(from.impl()->event.handle, to.impl()->event.handle);
}

void Graph::launch(const Stream &stream) const {
  if (stream.impl()->device != impl_->device)
    throw DeviceError("a graph of " + impl_->device->name + " cannot run in a stream of " +
                      stream.impl()->device->name);
  if (const auto capture = impl_->device->captures.of(*stream.impl()))
    impl_->device->captures.keep(*capture, impl_);
  impl_->device->debugLogs.launchGraph(impl_->handle, impl_->log, stream.native());
}

} // namespace sectile
