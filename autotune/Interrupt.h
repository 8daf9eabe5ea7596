// Ctrl-C while the tuner works.
#ifndef SECTILE_AUTOTUNE_INTERRUPT_H
#define SECTILE_AUTOTUNE_INTERRUPT_H

namespace sectile::autotune {

/// While one lives, the first SIGINT is the tuner's: it says so and hands the signal back to the
/// program's own handler, for the next. A program that ignores SIGINT is left to that.
class CatchInterrupt {
public:
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt &) = delete;

  bool caught() const;

private:
  int before; ///< how many there had been
};

} // namespace sectile::autotune

#endif
