// The language: everything a kernel is written with.
#pragma once
#include <sectile/create.h>
#include <sectile/memory.h>
#include <sectile/tile.h>
#include <sectile/view.h>
