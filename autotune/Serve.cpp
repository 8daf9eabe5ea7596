// The process that measures for a tuning in another one. It knows no kernels: it is given code, the
// words of arguments, and the bytes of the memory that these point into.
#include "autotune/Channel.h"
#include "autotune/Measure.h"
#include "codegen/Compiler.h"
#include "runtime/ByteStream.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace sectile::autotune {
namespace {

constexpr uint64_t alignment = 256;

class Server {
public:
  explicit Server(int file) : file(file) {}

  // The answer to a request, behind its first byte.
  std::string answer(ByteReader &fields) {
    switch (fields.number<Request>()) {
    case Request::Open:
      return open(fields);
    case Request::Memory:
      return takeMemory(fields);
    case Request::Outputs:
      return takeOutputs(fields);
    case Request::Run:
      return run(fields, false);
    case Request::Time:
      return run(fields, true);
    }
    throw Error("the process that measures does not know what it is asked for");
  }

  bool isLost() const { return device && (device->impl()->isLost() || !works(*device)); }

private:
  // Memory of the process that tunes, and what stands for it here.
  struct Region {
    uint64_t begin, end;
    detail::Memory memory;
    uint64_t here;
  };
  struct Code {
    std::string kernel;
    std::shared_ptr<const runtime::LoadedKernel> loaded;
    runtime::GridExtents grid;
    std::vector<uint64_t> words;
    std::vector<uint64_t> places; ///< of addresses among the words
  };

  std::string open(ByteReader &fields) {
    const std::string version = fields.text(), name = fields.text(), code = fields.text();
    if (version != compilerVersion())
      throw Error("the program that measures is of another build of the library: " +
                  compilerVersion() + ", not " + version);
    device.emplace(Device::open(name));
    if (device->impl()->codeKey() != code)
      throw Error(name + " is another device in the process that measures");
    stream.emplace(device->new_stream());
    return "";
  }

  std::string takeMemory(ByteReader &fields) {
    constexpr size_t piece = size_t{64} << 20;
    for (uint64_t count = fields.count(); count; --count) {
      Region region{fields.number<uint64_t>(), fields.number<uint64_t>(), {}, 0};
      const auto place = fields.number<uint64_t>();
      // What was known of a part of it is stale.
      std::erase_if(regions, [&](const Region &other) {
        return other.begin < region.end && region.begin < other.end;
      });
      const size_t bytes = region.end - region.begin;
      const uint64_t shift = region.begin % alignment;
      region.memory = detail::Memory(*device, bytes + (shift ? alignment : 0));
      const uint64_t base = region.memory.address();
      region.here = base + (shift + alignment - base % alignment) % alignment;
      std::vector<char> some(std::min(bytes, piece));
      for (size_t at = 0; at < bytes; at += some.size()) {
        const size_t part = std::min(some.size(), bytes - at);
        readAt(file, some.data(), part, place + at);
        device->impl()->copyToDevice(region.here + at, some.data(), part);
      }
      regions.push_back(std::move(region));
    }
    return "";
  }

  std::string takeOutputs(ByteReader &fields) {
    std::vector<OutputMemory> outputs(fields.count());
    for (OutputMemory &output : outputs) {
      output.address = moved(fields.number<uint64_t>());
      output.bytes = fields.number<uint64_t>();
    }
    copies.emplace(*device, std::move(outputs));
    stopwatch.emplace(*stream, *copies, 0);
    return "";
  }

  uint64_t moved(uint64_t address) const {
    for (const Region &region : regions)
      if (address >= region.begin && address < region.end)
        return address - region.begin + region.here;
    return address;
  }

  Code take(ByteReader &fields) {
    Code code;
    code.kernel = fields.text();
    const std::string bytes = fields.text();
    code.grid.x = fields.number<uint32_t>();
    code.grid.y = fields.number<uint32_t>();
    code.grid.z = fields.number<uint32_t>();
    code.words.resize(fields.count());
    for (uint64_t &word : code.words)
      word = fields.number<uint64_t>();
    code.places.resize(fields.count());
    for (uint64_t &place : code.places) {
      place = fields.number<uint64_t>();
      code.words.at(place) = moved(code.words.at(place));
    }
    std::shared_ptr<const runtime::LoadedKernel> &loaded = kernels[bytes];
    if (!loaded) {
      const std::optional<Artifact> artifact = deserialize(bytes);
      if (!artifact)
        throw Error("the code of kernel '" + code.kernel + "' did not arrive whole");
      loaded = device->impl()->load(*artifact);
    }
    code.loaded = loaded;
    return code;
  }

  Launchable launchable(Code code) {
    return {code.kernel, [code](const Stream &stream) {
              if (!code.grid.x || !code.grid.y || !code.grid.z)
                return;
              runtime::DeviceImpl &impl = *stream.device().impl();
              std::vector<uint64_t> words = code.words;
              void *arguments[detail::maxArguments + 2]; // two for the debug log
              for (size_t i = 0; i < words.size(); ++i)
                arguments[i] = &words[i];
              if (code.loaded->debug)
                impl.debugLogs.launch(*code.loaded, code.grid, arguments, words.size(),
                                      stream.native());
              else
                impl.launch(*code.loaded, code.grid, arguments, stream.native());
            }};
  }

  std::string run(ByteReader &fields, bool timed) {
    const auto deadline = fields.number<double>();
    const bool given = fields.number<bool>();
    const auto count = fields.number<uint32_t>();
    constexpr size_t mostKernels = 32;
    if (kernels.size() > mostKernels)
      kernels.clear();
    std::vector<Code> codes(fields.count());
    for (Code &code : codes)
      code = take(fields);
    if (!fields.finished() || codes.empty())
      throw Error("a launch did not arrive whole");
    Code tuned = std::move(codes.back());
    codes.pop_back();
    for (Code &code : codes)
      runWithin(deadline, launchable(std::move(code)), *stream);
    for (const uint64_t place : tuned.places)
      tuned.words[place] = copies->redirected(tuned.words[place]);
    const Launchable launch = launchable(std::move(tuned));
    std::string answer;
    ByteWriter out(answer);
    if (timed) {
      for (const double sample : stopwatch->time(launch, deadline, count))
        out.number(sample);
      return answer;
    }
    OutputBytes before;
    size_t place = 0;
    for (const OutputMemory &output : copies->outputs()) {
      if (given)
        readAt(file, before.emplace_back(output.bytes).data(), output.bytes, place);
      place += output.bytes;
    }
    const auto start = std::chrono::steady_clock::now();
    for (const std::vector<char> &one :
         stopwatch->run(launch, deadline, given ? &before : nullptr)) {
      writeAt(file, one.data(), one.size(), place);
      place += one.size();
    }
    out.number(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return answer;
  }

  const int file;
  std::optional<Device> device;
  std::optional<Stream> stream;
  std::vector<Region> regions;
  std::optional<OutputCopies> copies;
  std::optional<Stopwatch> stopwatch;
  std::map<std::string, std::shared_ptr<const runtime::LoadedKernel>> kernels; ///< by their code
};

std::string failure(Answer kind, const char *text) {
  std::string answer;
  ByteWriter fields(answer);
  fields.number(kind);
  fields.text(text);
  return answer;
}

} // namespace

int serveMeasurements(int socket, int file) {
  const Channel channel(socket);
  Server server(file);
  for (bool more = true; more;) {
    Channel::End why;
    const std::optional<std::string> request = channel.receive(-1, why);
    if (!request)
      break;
    std::string answer;
    try {
      ByteReader fields(*request);
      ByteWriter(answer).number(Answer::Done);
      answer += server.answer(fields);
    } catch (const runtime::DeadlinePassed &error) {
      answer = failure(Answer::Late, error.what());
      more = false;
    } catch (const DeviceError &error) {
      more = !server.isLost();
      answer = failure(more ? Answer::Device : Answer::Lost, error.what());
    } catch (const std::exception &error) {
      answer = failure(Answer::Refused, error.what());
    }
    more &= channel.send(answer);
  }
  // A driver may wait at the end of a process for a kernel that has none.
  std::_Exit(0);
}

} // namespace sectile::autotune
