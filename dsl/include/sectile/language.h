// The language: everything a kernel is written with.
#pragma once
#include <sectile/atomic.h>
#include <sectile/config.h>
#include <sectile/control.h>
#include <sectile/create.h>
#include <sectile/debug.h>
#include <sectile/function.h>
#include <sectile/grid.h>
#include <sectile/hints.h>
#include <sectile/integers.h>
#include <sectile/math.h>
#include <sectile/memory.h>
#include <sectile/random.h>
#include <sectile/reduce.h>
#include <sectile/shape.h>
#include <sectile/tile.h>
#include <sectile/view.h>
