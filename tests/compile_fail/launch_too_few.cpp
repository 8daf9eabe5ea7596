// A launch names the parameter that has no argument.
// expect: this call has too few arguments.*first parameter of the kernel without one
// expect: MissingArgument<2U?L?, .*Index
#include <sectile/sectile.h>
sectile::Kernel shift{"shift",
                      [](sectile::Ptr<float> to, sectile::Ptr<const float> from, sectile::Int by) {
                        sectile::store(to, sectile::load(from + by));
                      }};
void run(const sectile::Stream &stream, const sectile::Buffer<float> &x) {
  shift.launch(stream, 1, x, x);
}
