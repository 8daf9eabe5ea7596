// A parameter is made field by field.
// expect: SECTILE_STRUCT takes a plain struct
#include <sectile/language.h>
class Cursor {
public:
  explicit Cursor(sectile::Int at) : at(at) {}
  sectile::Int at;
};
SECTILE_STRUCT(Cursor, at)
