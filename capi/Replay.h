// A call's launches with the addresses of its arguments left open: what is repeated for other
// memory without asking the operation's host code again.
#pragma once
#include "kernels/calls/Use.h"
#include "runtime/LaunchAccess.h"
#include <sectile/library.h>

namespace sectile::c {

class Replay {
public:
  // From launches that the host code gives for made-up addresses. None where something besides
  // their addresses follows from where arguments lie, or where the call has scratch memory, which
  // is another one each time. `addresses` are the call's own: what host code sees of them is their
  // last bits.
  static std::optional<Replay> of(const Invocation &call, const Config &config,
                                  const Device &device, std::span<const std::uint64_t> addresses);
  // What host code may see of an address: its launches hold for others that end in the same bits.
  static constexpr std::uint64_t seenBits = 255;

  // `addresses` are of all arguments, 0 where one was left out.
  void launch(const Stream &stream, const std::uint64_t *addresses) const;

private:
  struct Place { // a word that is the address of an argument
    std::uint32_t word, argument;
    std::int64_t offset;
  };
  struct Launch {
    detail::BoundLaunch bound;
    std::vector<Place> places;
  };
  std::vector<Launch> launches;
};

} // namespace sectile::c
