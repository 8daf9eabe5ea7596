// All of Sectile: the language, devices, kernels.
#pragma once
#include <sectile/activity.h>
#include <sectile/buffer.h>
#include <sectile/config.h>
#include <sectile/device.h>
#include <sectile/error.h>
#include <sectile/interpreter.h>
#include <sectile/kernel.h>
#include <sectile/language.h>
#include <sectile/prepare.h>
#include <sectile/report.h>
#include <sectile/stream.h>
#include <sectile/tensor.h>
#include <sectile/types.h>
#include <sectile/version.h>
