// RUN: sectile-opt --check-offsets %s | FileCheck %s

// Without the attribute nothing is checked.
// CHECK-LABEL: func.func @unchecked
// CHECK-NOT: tile.assert
// CHECK: tile.assume
func.func @unchecked(%p: !tile.ptr<f32>, %i: i32, %c: i1) attributes {tile.kernel} {
  %0 = arith.muli %i, %i {tile.fits} : i32
  %1 = tile.addptr %p, %0 : !tile.ptr<f32>, i32
  tile.assume %c
  return
}

// CHECK-LABEL: func.func @checked
// CHECK-SAME: %[[P:[^:]*]]: !tile.ptr<f32>, %[[I:[^:]*]]: i32
func.func @checked(%p: !tile.ptr<f32>, %i: i32) attributes {tile.kernel, tile.checked} {
  // CHECK: %[[PRODUCT:.*]] = arith.muli %[[I]], %[[I]] {tile.fits} : i32
  // CHECK: %[[A:.*]] = arith.extsi %[[I]] : i32 to i64
  // CHECK: %[[B:.*]] = arith.extsi %[[I]] : i32 to i64
  // CHECK: %[[EXACT:.*]] = arith.muli %[[A]], %[[B]] : i64
  // CHECK: %[[WIDE:.*]] = arith.extsi %[[PRODUCT]] : i32 to i64
  // CHECK: %[[OVER:.*]] = arith.cmpi ne, %[[EXACT]], %[[WIDE]]
  // CHECK: tile.addptr
  // CHECK: %[[HOLDS:.*]] = arith.xori %[[OVER]], %{{.*}} : i1
  // CHECK: tile.assert %[[HOLDS]], "a product of 32 bits that feeds an address overflows
  // CHECK: tile.load
  %0 = arith.muli %i, %i {tile.fits} : i32
  %1 = tile.addptr %p, %0 : !tile.ptr<f32>, i32
  %loaded = tile.load %1 : !tile.ptr<f32> -> f32
  // What feeds no address, and what is small, are left alone.
  // CHECK-NOT: tile.assert
  %2 = arith.addi %i, %i {tile.fits} : i32
  %c16 = arith.constant dense<16> : tensor<64xi32>
  %range = tile.arange 0 : tensor<64xi32>
  %3 = arith.muli %range, %c16 {tile.fits} : tensor<64xi32>
  %4 = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %5 = tile.addptr %4, %3 : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %6 = tile.load %5 : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  // What is divided may wrap.
  %7 = arith.addi %i, %i {tile.fits} : i32
  %8 = arith.remui %7, %i : i32
  %9 = tile.addptr %p, %8 : !tile.ptr<f32>, i32
  tile.store %9, %loaded : !tile.ptr<f32>, f32
  return
}

// Followed to the access, where the mask hides what is not read; narrower types, conversions.
// CHECK-LABEL: func.func @masked
// CHECK-SAME: %[[P:[^:]*]]: tensor<64x!tile.ptr<f32>>, %[[I:[^:]*]]: i16, %[[M:[^:]*]]: tensor<64xi1>, %[[W:[^:]*]]: tensor<64xi64>
func.func @masked(%p: tensor<64x!tile.ptr<f32>>, %i: i16, %m: tensor<64xi1>, %w: tensor<64xi64>, %c: i1) attributes {tile.kernel, tile.checked} {
  // CHECK: arith.addi %[[I]], %[[I]] {tile.fits} : i16
  // CHECK: %[[OVER:.*]] = arith.cmpi ne
  // CHECK: tile.splat %{{.*}} : i16
  // CHECK: %[[ALL:.*]] = tile.splat %[[OVER]] : i1 -> tensor<64xi1>
  // CHECK: arith.select %{{.*}} : tensor<64xi16>
  // CHECK: %[[CHOSEN:.*]] = arith.select %{{.*}}, %[[ALL]], %{{.*}} : tensor<64xi1>
  // CHECK: tile.addptr
  // CHECK: %[[SEEN:.*]] = arith.andi %[[CHOSEN]], %[[M]] : tensor<64xi1>
  // CHECK: %[[HOLDS:.*]] = arith.xori %[[SEEN]]
  // CHECK: tile.assert %[[HOLDS]], "a sum of 16 bits
  // CHECK: tile.load
  %0 = arith.addi %i, %i {tile.fits} : i16
  %1 = tile.splat %0 : i16 -> tensor<64xi16>
  %zero = arith.constant dense<0> : tensor<64xi16>
  %2 = arith.select %c, %1, %zero : tensor<64xi16>
  %3 = tile.addptr %p, %2 : tensor<64x!tile.ptr<f32>>, tensor<64xi16>
  %4 = tile.load %3 mask %m : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> -> tensor<64xf32>
  // A conversion may wrap, and so may arithmetic that is not marked to fit.
  // CHECK: arith.trunci %[[W]]
  // CHECK-NOT: tile.assert
  %5 = arith.trunci %w : tensor<64xi64> to tensor<64xi32>
  %6 = tile.addptr %p, %5 : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %6, %4 : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// Through loops and branches.
// CHECK-LABEL: func.func @paths
func.func @paths(%p: !tile.ptr<f32>, %i: i32, %n: i32, %c: i1) attributes {tile.kernel, tile.checked} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = scf.for %k = %c0 to %n step %c1 iter_args(%at = %i) -> (i32) : i32 {
    %next = scf.if %c -> i32 {
      // CHECK: arith.addi %{{.*}}, %{{.*}} {tile.fits} : i32
      // CHECK: arith.extsi
      // CHECK: arith.addi %{{.*}}, %{{.*}} : i64
      // CHECK: tile.assert %{{.*}}, "a sum of 32 bits
      %sum = arith.addi %at, %i {tile.fits} : i32
      scf.yield %sum : i32
    } else {
      scf.yield %at : i32
    }
    scf.yield %next : i32
  }
  %wide = arith.extui %last : i32 to i64
  %0 = tile.addptr %p, %wide : !tile.ptr<f32>, i64
  return
}

// Promises become assertions, and are gone.
// CHECK-LABEL: func.func @promises
// CHECK-SAME: %[[C:[^:]*]]: i1, %[[X:[^:]*]]: tensor<32xi32>
func.func @promises(%c: i1, %x: tensor<32xi32>) attributes {tile.kernel, tile.checked} {
  // CHECK: tile.assert %[[C]], "what sc::assume promises does not hold"
  // CHECK-NOT: tile.assume
  tile.assume %c
  // CHECK: arith.remsi %[[X]], %{{.*}} : tensor<32xi32>
  // CHECK: tile.assert %{{.*}}, "what sc::multiple_of promises does not hold" : tensor<32xi1>
  // CHECK: tile.reshape %{{.*}} : tensor<32xi32> -> tensor<4x8xi32>
  // CHECK: tile.reduce %{{.*}} 1
  // CHECK: tile.reduce %{{.*}} 1
  // CHECK: tile.assert %{{.*}}, "what sc::contiguous promises does not hold" : tensor<4xi1>
  // CHECK-NOT: tile.hint
  %0 = tile.hint %x {divisible = array<i64: 4>, contiguous = array<i64: 8>} : tensor<32xi32>
  return
}
