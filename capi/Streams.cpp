// Streams, events and graphs of the C interface.
#include "capi/Handles.h"
#include <map>
#include <mutex>

using namespace sectile;

namespace {

// The handles of other libraries' streams: one for each.
struct WrappedStreams {
  std::mutex mutex; // guards what follows
  std::map<std::pair<const runtime::DeviceImpl *, void *>, sectile_stream *> handles;

  static WrappedStreams &get() {
    static auto *all = new WrappedStreams; // handles may be released by static objects
    return *all;
  }
};

} // namespace

extern "C" {

sectile_status sectile_stream_new(sectile_device *device, sectile_stream **stream) {
  if (stream)
    *stream = nullptr;
  return c::guard(
      [&] {
        c::require(device, "sectile_stream_new: device");
        c::require(stream, "sectile_stream_new: stream");
        *stream = new sectile_stream(device->device.new_stream());
      },
      c::implOf(device));
}

sectile_status sectile_stream_wrap(sectile_device *device, void *native, sectile_stream **stream) {
  if (stream)
    *stream = nullptr;
  return c::guard(
      [&] {
        c::require(device, "sectile_stream_wrap: device");
        c::require(stream, "sectile_stream_wrap: stream");
        WrappedStreams &wrapped = WrappedStreams::get();
        std::lock_guard lock(wrapped.mutex);
        sectile_stream *&known = wrapped.handles[{c::implOf(device), native}];
        if (known) {
          ++known->owners;
        } else {
          known = new sectile_stream(Stream::wrap(device->device, native));
          known->isWrapped = true;
        }
        *stream = known;
      },
      c::implOf(device));
}

void *sectile_stream_native(sectile_stream *stream) {
  return stream ? stream->stream.native() : nullptr;
}

void sectile_stream_release(sectile_stream *stream) {
  if (!stream)
    return;
  if (stream->isWrapped) {
    WrappedStreams &wrapped = WrappedStreams::get();
    std::lock_guard lock(wrapped.mutex);
    if (--stream->owners)
      return;
    wrapped.handles.erase({c::implOf(stream), stream->stream.native()});
  }
  delete stream;
}

sectile_status sectile_stream_synchronize(sectile_stream *stream) {
  return c::guard(
      [&] {
        c::require(stream, "sectile_stream_synchronize: stream");
        stream->stream.synchronize();
      },
      c::implOf(stream));
}

sectile_status sectile_stream_wait(sectile_stream *stream, sectile_event *event) {
  return c::guard(
      [&] {
        c::require(stream, "sectile_stream_wait: stream");
        c::require(event, "sectile_stream_wait: event");
        const runtime::DeviceImpl &other = *event->event.impl()->device;
        if (!c::implOf(stream)->reaches(other))
          throw c::Refusal(SECTILE_INVALID, "sectile_stream_wait: a stream of " +
                                                c::implOf(stream)->name +
                                                " cannot wait for an event of " + other.name);
        stream->stream.wait(event->event);
      },
      c::implOf(stream));
}

sectile_status sectile_stream_record(sectile_stream *stream, int timed, sectile_event **event) {
  if (event)
    *event = nullptr;
  return c::guard(
      [&] {
        c::require(stream, "sectile_stream_record: stream");
        c::require(event, "sectile_stream_record: event");
        *event = new sectile_event{timed ? stream->stream.record_timed() : stream->stream.record()};
      },
      c::implOf(stream));
}

sectile_status sectile_event_synchronize(sectile_event *event) {
  return c::guard(
      [&] {
        c::require(event, "sectile_event_synchronize: event");
        event->event.synchronize();
      },
      event ? event->event.impl()->device.get() : nullptr);
}

sectile_status sectile_event_elapsed(sectile_event *from, sectile_event *to, float *milliseconds) {
  return c::guard(
      [&] {
        c::require(from, "sectile_event_elapsed: from");
        c::require(to, "sectile_event_elapsed: to");
        c::require(milliseconds, "sectile_event_elapsed: milliseconds");
        const runtime::EventImpl &first = *from->event.impl(), &last = *to->event.impl();
        if (first.device != last.device)
          throw c::Refusal(SECTILE_INVALID, "sectile_event_elapsed: there is no time between an "
                                            "event of " +
                                                first.device->name + " and one of " +
                                                last.device->name);
        if (!first.event.timed || !last.event.timed)
          throw c::Refusal(SECTILE_INVALID, "sectile_event_elapsed: an event has no time: record "
                                            "both with `timed`");
        *milliseconds = elapsed_ms(from->event, to->event);
      },
      to ? to->event.impl()->device.get() : nullptr);
}

void sectile_event_release(sectile_event *event) { delete event; }

sectile_status sectile_capture_begin(sectile_stream *stream) {
  return c::guard(
      [&] {
        c::require(stream, "sectile_capture_begin: stream");
        stream->stream.begin_capture();
      },
      c::implOf(stream));
}

sectile_status sectile_capture_end(sectile_stream *stream, sectile_graph **graph) {
  if (graph)
    *graph = nullptr;
  return c::guard(
      [&] {
        c::require(stream, "sectile_capture_end: stream");
        c::require(graph, "sectile_capture_end: graph");
        *graph = new sectile_graph{stream->stream.end_capture(), stream->stream.impl()->device};
      },
      c::implOf(stream));
}

sectile_status sectile_graph_launch(sectile_graph *graph, sectile_stream *stream) {
  return c::guard(
      [&] {
        c::require(graph, "sectile_graph_launch: graph");
        c::require(stream, "sectile_graph_launch: stream");
        if (graph->device.get() != c::implOf(stream))
          throw c::Refusal(SECTILE_INVALID,
                           "sectile_graph_launch: a graph of " + graph->device->name +
                               " cannot run in a stream of " + c::implOf(stream)->name);
        graph->graph.launch(stream->stream);
      },
      c::implOf(stream));
}

void sectile_graph_release(sectile_graph *graph) { delete graph; }

} // extern "C"
