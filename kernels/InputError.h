// Where the library's own files find InputError.
#pragma once
#include <sectile/input_error.h>
