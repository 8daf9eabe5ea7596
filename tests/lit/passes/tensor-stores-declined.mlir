// Stores and atomic operations that are the threads' own, and the remarks that say why.
// RUN: sectile-opt --split-input-file --sectile-pipeline %s 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.err

// CHECK-LABEL: func.func @odd_rows
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is stored by threads, not by the copy engine: its rows are not known to end at a multiple of 16 bytes
module attributes {cta.target = "sm_90a"} {
  func.func @odd_rows(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %n], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    tile.store_block %c[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @before
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is stored by threads, not by the copy engine: it may begin before its view does
module attributes {cta.target = "sm_90a"} {
  func.func @before(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    tile.store_block %c[%n, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @within_a_piece
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is stored by threads, not by the copy engine: it is not known to begin at a multiple of 16 bytes of its rows
module attributes {cta.target = "sm_90a"} {
  func.func @within_a_piece(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    tile.store_block %c[%c0, %c1], %result : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @hinted
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is stored by threads, not by the copy engine: it has a hint for the cache
module attributes {cta.target = "sm_90a"} {
  func.func @hinted(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    tile.store_block %c[%c0, %c0], %result {eviction = 1 : i32} : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @read_before
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is stored by threads, not by the copy engine: the kernel may read or write it elsewhere
module attributes {cta.target = "sm_90a"} {
  func.func @read_before(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %z0 = tile.load %z : !tile.ptr<f16> -> f16
    %same = tile.splat %z0 : f16 -> tensor<64x128xf16>
    %narrow = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    %result = arith.addf %narrow, %same : tensor<64x128xf16>
    tile.store_block %c[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16>
    return
  }
}


// -----

// CHECK-LABEL: func.func @ordered
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is added by threads, not by the copy engine: it is ordered, or its result is used
module attributes {cta.target = "sm_90a"} {
  func.func @ordered(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    %old = tile.atomic_block fadd, %c[%c0, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16> -> tensor<64x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @largest
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is added by threads, not by the copy engine: it adds no floats of 16 or 32 bits
module attributes {cta.target = "sm_90a"} {
  func.func @largest(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    %old = tile.atomic_block fmax, %c[%c0, %c0], %result {order = 0 : i32} : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16> -> tensor<64x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @of_the_system
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is added by threads, not by the copy engine: it is atomic for the whole system
module attributes {cta.target = "sm_90a"} {
  func.func @of_the_system(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                  %extent: i32 {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64, tile.below = 2147483647 : i64},
                  %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %depth = arith.constant 64 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i32
    %a = tile.make_view %x, [%c64, %extent], [%stride, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%c64, %c128], [%c128, %one] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %k = arith.muli %i, %depth {tile.fits} : i32
      %left = tile.load_block %a[%c0, %k] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
      %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x128xf16>
      %next = tile.dot %left, %right, %acc : tensor<64x64xf16>, tensor<64x128xf16>, tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %result = arith.truncf %sums : tensor<64x128xf32> to tensor<64x128xf16>
    %old = tile.atomic_block fadd, %c[%c0, %c0], %result {order = 0 : i32, scope = 2 : i32} : !tile.view<2xf16>, [i32, i32], tensor<64x128xf16> -> tensor<64x128xf16>
    return
  }
}

// -----

// Read in the iteration that stores it; all others store elsewhere.
// CHECK-LABEL: func.func @read_again
// CHECK-NOT: cta.tensor_store
// REMARK: remark: this block is stored by threads, not by the copy engine: the kernel may read or write it elsewhere
module attributes {cta.target = "sm_90a"} {
  func.func @read_again(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %y: !tile.ptr<f16> {tile.divisible = 16 : i64},
                   %extent: i32 {tile.divisible = 16 : i64, tile.below = 1073741824 : i64}, %z: !tile.ptr<f16> {tile.divisible = 16 : i64}, %u: !tile.ptr<f16> {tile.divisible = 16 : i64}, %tiles: i32,
                   %n: i32) attributes {tile.kernel, cta.warps = 8 : i32, cta.stages = 3 : i32} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %a = tile.make_view %x, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %b = tile.make_view %y, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c = tile.make_view %z, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %d = tile.make_view %u, [%extent, %c64], [%c64, %c1] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %first = tile.program_id 0
    %programs = tile.num_programs 0
    scf.for %tile = %c0 to %tiles step %c1 : i32 {
      %row = arith.muli %tile, %c128 {tile.fits} : i32
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
        %k = arith.muli %i, %c64 {tile.fits} : i32
        %left = tile.load_block %a[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
        %right = tile.load_block %b[%k, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
        %next = tile.dot %left, %right, %acc : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
        scf.yield %next : tensor<128x64xf32>
      } {cta.warp_specialize = true}
      %result = arith.truncf %sums : tensor<128x64xf32> to tensor<128x64xf16>
      tile.store_block %c[%row, %c0], %result : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
      %again = tile.load_block %c[%row, %c0] : !tile.view<2xf16>, [i32, i32] -> tensor<128x64xf16>
      tile.store_block %d[%row, %c0], %again : !tile.view<2xf16>, [i32, i32], tensor<128x64xf16>
    }
    return
  }
}
