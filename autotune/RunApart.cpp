// Candidates in another process. It gets code, arguments and copies of the memory that these point
// into, so it can measure kernels that only this process can trace. What a candidate does to its
// process or to the device's state there is nothing to this one: the next has a new process.
#include "autotune/Channel.h"
#include "autotune/Runner.h"
#include "codegen/Compiler.h"
#include "jit/OwnFiles.h"
#include "runtime/ByteStream.h"
#include "runtime/LaunchAccess.h"
#include "runtime/Numerals.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sectile::autotune {
namespace {

using runtime::Descriptor;

// Seconds for what has no deadline, and beyond a deadline.
double patience() {
  const char *text = std::getenv("SECTILE_MEASURE_PATIENCE");
  const double seconds = runtime::numberIn(text ? text : "").value_or(0);
  return seconds > 0 ? seconds : 120;
}

std::string errorText() { return std::strerror(errno); }

// The program `sectile` that came with this library.
std::string programThatMeasures() {
  if (const char *named = std::getenv("SECTILE_MEASURE")) {
    if (!*named)
      throw Error("SECTILE_MEASURE is empty");
    return named;
  }
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&programThatMeasures), &info) == 0 || !info.dli_fname)
    throw Error("the library's file is not known");
  char path[PATH_MAX];
  if (!realpath(info.dli_fname, path))
    throw Error(std::string(info.dli_fname) + ": " + errorText());
  const std::string library(path), folder = library.substr(0, library.rfind('/'));
  for (const char *up : {"/..", "/../.."})
    if (std::string program = folder + up + "/bin/sectile"; access(program.c_str(), X_OK) == 0)
      return program;
  throw Error("there is no program bin/sectile that belongs to " + library +
              "; SECTILE_MEASURE can name it");
}

// A copy of it that is none of those the other process finds.
int highCopy(int descriptor) {
  const int high = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  if (high < 0)
    throw Error(errorText());
  return high;
}

class Process {
public:
  explicit Process(int file) : program(programThatMeasures()) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw Error(errorText());
    socket = Descriptor(ends[0]);
    const Descriptor given(ends[1]), theirs(highCopy(given)), shared(highCopy(file));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1); // a driver may talk; the output is the user's
    posix_spawn_file_actions_adddup2(&actions, theirs, measureSocket);
    posix_spawn_file_actions_adddup2(&actions, shared, measureFile);
    posix_spawn_file_actions_addclosefrom_np(&actions, measureFile + 1);
    // Ctrl-C is for the process that tunes.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    // A trace is of this process, too.
    std::vector<char *> environment;
    for (char **variable = environ; variable && *variable; ++variable)
      if (std::strncmp(*variable, "SECTILE_TRACE=", 14) != 0)
        environment.push_back(*variable);
    environment.push_back(nullptr);
    char *const arguments[] = {const_cast<char *>(program.c_str()), const_cast<char *>(measureWord),
                               nullptr};
    const int error =
        posix_spawn(&id, program.c_str(), &actions, &attributes, arguments, environment.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error)
      throw Error(program + ": " + std::strerror(error));
  }
  Process(const Process &) = delete;
  ~Process() { end(true); }

  // The same before anything ran: what goes wrong is the process's.
  void prepare(const std::string &request, double seconds) {
    try {
      ask(request, seconds);
    } catch (const Error &error) {
      throw Error(program + ": " + error.what());
    }
  }
  // The answer behind its first byte, which is Done; everything else is thrown.
  std::string ask(const std::string &request, double seconds) {
    const Channel channel(socket);
    Channel::End why = Channel::End::Closed;
    std::optional<std::string> answer;
    if (channel.send(request))
      answer = channel.receive(seconds, why);
    if (!answer) {
      const bool late = why == Channel::End::Late;
      const std::string how = end(late);
      if (late)
        throw runtime::DeadlinePassed("it and the device did not answer within " +
                                      std::to_string(std::lround(seconds)) + " s");
      throw DeviceError("it ended the process that measured it: " + how);
    }
    ByteReader fields(*answer);
    const auto kind = fields.number<Answer>();
    if (kind == Answer::Done)
      return std::string(fields.rest());
    if (kind == Answer::Late || kind == Answer::Lost)
      end(true);
    const std::string text = fields.text();
    switch (kind) {
    case Answer::Late:
      throw runtime::DeadlinePassed(text);
    case Answer::Refused:
      throw Error(text);
    default:
      throw DeviceError(text);
    }
  }

  bool hasEnded() const { return id < 0; }

private:
  // How it ended.
  std::string end(bool killed) {
    if (id < 0)
      return "";
    if (killed)
      kill(id, SIGKILL);
    int status = 0;
    while (waitpid(id, &status, 0) < 0 && errno == EINTR)
      ;
    id = -1;
    return WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                               : "status " + std::to_string(WEXITSTATUS(status));
  }

  const std::string program;
  pid_t id = -1;
  Descriptor socket{-1};
};

// Of the user's memory, and where its bytes lie in the shared file.
struct Region {
  uint64_t begin, end;
  size_t place;
};

bool overlap(const Region &a, const Region &b) { return a.begin < b.end && b.begin < a.end; }

class Apart : public Runner {
public:
  Apart(const Device &device, const std::vector<OutputMemory> &outputs,
        const detail::BoundLaunch &reference, double allowed)
      : device(device), outputs(outputs), deadline(allowed),
        file(memfd_create("sectile-tuning", MFD_CLOEXEC)) {
    if (!file)
      throw Error(errorText());
    std::vector<Region> ranges = rangesOf(reference);
    for (const OutputMemory &output : outputs)
      ranges.push_back({output.address, output.address + output.bytes, 0});
    std::sort(ranges.begin(), ranges.end(),
              [](const Region &a, const Region &b) { return a.begin < b.begin; });
    for (const Region &range : ranges)
      if (!regions.empty() && range.begin < regions.back().end)
        regions.back().end = std::max(regions.back().end, range.end);
      else
        regions.push_back(range);
    for (const OutputMemory &output : outputs)
      outputBytes += output.bytes;
    fileSize = 2 * outputBytes;
    for (Region &region : regions)
      keep(region);
    start();
  }

  OutputBytes before() override {
    OutputBytes bytes;
    for (const OutputMemory &output : outputs) {
      const Region *region = find(output.address);
      std::vector<char> &one = bytes.emplace_back(output.bytes);
      readAt(file, one.data(), one.size(), region->place + output.address - region->begin);
    }
    return bytes;
  }

  OutputBytes run(const LoadedCandidate &candidate, const OutputBytes *before) override {
    if (before)
      put(*before);
    const std::string took = ask(Request::Run, candidate, before != nullptr, 1);
    deadline.took(ByteReader(took).number<double>());
    OutputBytes written;
    size_t place = outputBytes;
    for (const OutputMemory &output : outputs) {
      std::vector<char> &one = written.emplace_back(output.bytes);
      readAt(file, one.data(), one.size(), place);
      place += one.size();
    }
    return written;
  }

  std::vector<double> time(const LoadedCandidate &candidate, unsigned count) override {
    const std::string answer = ask(Request::Time, candidate, false, count);
    ByteReader fields(answer);
    std::vector<double> samples(count);
    for (double &sample : samples)
      sample = fields.number<double>();
    if (!fields.finished())
      throw DeviceError("the process that measures gave no times");
    return samples;
  }

  bool works() override {
    try {
      start();
      return true;
    } catch (const std::exception &) {
      return false;
    }
  }
  bool isApart() const override { return true; }

private:
  // Memory that a launch's arguments point into.
  static std::vector<Region> rangesOf(const detail::BoundLaunch &launch) {
    std::vector<Region> ranges;
    const std::vector<size_t> places = addressWords(launch.kernel->arguments());
    size_t next = 0;
    for (size_t i = 0; i < launch.kernel->arguments().size(); ++i) {
      const detail::ArgKind kind = launch.kernel->arguments()[i].kind;
      if (kind != detail::ArgKind::pointer && kind != detail::ArgKind::view)
        continue;
      const detail::Owner &owner = launch.owners[i];
      if (launch.words[places[next++]] == 0 || (owner.device && !owner.bytes))
        continue;
      if (!owner.device)
        throw Error("argument " + std::to_string(i) + " of kernel '" +
                    std::string(launch.kernel->name()) + "' is memory of unknown size");
      ranges.push_back({owner.address, owner.address + owner.bytes, 0});
    }
    return ranges;
  }

  const Region *find(uint64_t address) const {
    for (const Region &region : regions)
      if (address >= region.begin && address < region.end)
        return &region;
    return nullptr;
  }

  // Knows this memory from now on; what is known of a part of it goes, here and there.
  void include(Region range, std::vector<Region> &fresh) {
    const Region *known = find(range.begin);
    if (known && range.end <= known->end)
      return;
    for (const Region &region : regions)
      if (overlap(region, range)) {
        range.begin = std::min(range.begin, region.begin);
        range.end = std::max(range.end, region.end);
      }
    for (const OutputMemory &output : outputs)
      if (overlap({output.address, output.address + output.bytes, 0}, range))
        throw Error("its memory overlaps with outputs in another way than the reference "
                    "configuration's");
    keep(range);
    std::erase_if(regions, [&](const Region &region) { return overlap(region, range); });
    regions.push_back(range);
    fresh.push_back(range);
  }

  // Copies the user's memory into the file.
  void keep(Region &region) {
    constexpr size_t piece = size_t{64} << 20;
    const size_t bytes = region.end - region.begin;
    const double free =
        static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    if (static_cast<double>(bytes) > free / 2)
      throw Error("the host has no memory for a copy of " + std::to_string(bytes >> 20) + " MiB");
    region.place = fileSize;
    fileSize += bytes;
    std::vector<char> some(std::min(bytes, piece));
    for (size_t at = 0; at < bytes; at += some.size()) {
      const size_t count = std::min(some.size(), bytes - at);
      device.impl()->copyToHost(some.data(), region.begin + at, count);
      writeAt(file, some.data(), count, region.place + at);
    }
  }

  void put(const OutputBytes &bytes) {
    size_t place = 0;
    for (const std::vector<char> &one : bytes) {
      writeAt(file, one.data(), one.size(), place);
      place += one.size();
    }
  }

  void start() {
    if (process && !process->hasEnded())
      return;
    process.reset();
    process.emplace(file);
    std::string open, text;
    ByteWriter words(open);
    words.number(Request::Open);
    words.text(compilerVersion());
    words.text(device.name());
    words.text(device.impl()->codeKey());
    process->prepare(open, patience());
    tell(regions);
    ByteWriter fields(text);
    fields.number(Request::Outputs);
    fields.number(uint64_t{outputs.size()});
    for (const OutputMemory &output : outputs) {
      fields.number(uint64_t{output.address});
      fields.number(uint64_t{output.bytes});
    }
    process->prepare(text, patience());
  }

  void tell(std::span<const Region> some) {
    std::string text;
    ByteWriter fields(text);
    fields.number(Request::Memory);
    fields.number(uint64_t{some.size()});
    double seconds = patience();
    for (const Region &region : some) {
      fields.number(region.begin);
      fields.number(region.end);
      fields.number(uint64_t{region.place});
      seconds += static_cast<double>(region.end - region.begin) / 1e8;
    }
    process->prepare(text, seconds);
  }

  void write(ByteWriter &fields, const detail::BoundLaunch &launch) {
    const std::shared_ptr<const Artifact> code = runtime::LaunchAccess::code(launch, device);
    fields.text(launch.kernel->name());
    fields.text(serialize(*code));
    const Grid grid = runtime::LaunchAccess::extents(launch, device);
    for (const unsigned extent : {grid.x, grid.y, grid.z})
      fields.number(uint32_t{extent});
    fields.number(uint64_t{launch.words.size()});
    for (const uint64_t word : launch.words)
      fields.number(word);
    const std::vector<size_t> places = addressWords(launch.kernel->arguments());
    fields.number(uint64_t{places.size()});
    for (const size_t place : places)
      fields.number(uint64_t{place});
  }

  std::string ask(Request request, const LoadedCandidate &candidate, bool given, unsigned count) {
    // Scratch memory may be another for each candidate.
    std::vector<Region> fresh;
    std::vector<const detail::BoundLaunch *> launches;
    for (const detail::BoundLaunch &launch : candidate.ahead)
      launches.push_back(&launch);
    launches.push_back(&candidate.launch);
    for (const detail::BoundLaunch *launch : launches)
      for (const Region &range : rangesOf(*launch))
        include(range, fresh);
    std::string text;
    ByteWriter fields(text);
    const double seconds = deadline.seconds();
    fields.number(request);
    fields.number(seconds);
    fields.number(given);
    fields.number(uint32_t{count});
    fields.number(uint64_t{launches.size()});
    for (const detail::BoundLaunch *launch : launches)
      write(fields, *launch);
    const bool isNew = !process || process->hasEnded();
    start();
    if (!isNew && !fresh.empty())
      tell(fresh);
    return process->ask(text, patience() + seconds * static_cast<double>(launches.size() + count));
  }

  const Device device;
  const std::vector<OutputMemory> outputs;
  Deadline deadline;
  const Descriptor file;
  size_t fileSize = 0, outputBytes = 0; ///< first in the file: outputs before and after a run
  std::vector<Region> regions;
  std::optional<Process> process;
};

} // namespace

std::unique_ptr<Runner> runApart(const Device &device, const std::vector<OutputMemory> &outputs,
                                 const detail::BoundLaunch &reference, double deadline) {
  return std::make_unique<Apart>(device, outputs, reference, deadline);
}

} // namespace sectile::autotune
