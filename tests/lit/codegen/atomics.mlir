// Atomic operations become the chip's own where it has them, under a predicate and with the scope; the order is that of
// fences and barriers around them. Without their result they are reductions.
// RUN: sectile-opt --sectile-pipeline %s | sectile-opt --emit-assembly - | FileCheck %s --check-prefixes=PTX,SM80
// RUN: sed 's/sm_80/sm_90a/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s --check-prefixes=PTX,SM90
// RUN: sed 's/sm_80/gfx942/' %s | sectile-opt --sectile-pipeline - | sectile-opt --emit-assembly - | FileCheck %s --check-prefix=AMD

module attributes {cta.target = "sm_80"} {

// The block's threads have written before one of them releases, and read after it has acquired.
// PTX-LABEL: .entry ordered
// PTX: bar.sync 0
// PTX-NEXT: fence.acq_rel.gpu
// PTX: @%p{{[0-9]+}} atom.relaxed.gpu.global.add.u32
// PTX: fence.acq_rel.gpu
// PTX-NEXT: bar.sync 0
// PTX: st.shared.b32
// PTX: bar.sync 0
// PTX: ld.shared.b32
// PTX: fence.acq_rel.sys
// PTX: @%p{{[0-9]+}} atom.relaxed.sys.global.cas.b32
// PTX-NOT: fence
// AMD-LABEL: ordered:
// AMD: s_barrier
// AMD: buffer_wbl2 sc1
// AMD: global_atomic_add
// AMD: buffer_inv sc1
// AMD: s_barrier
// AMD: buffer_wbl2 sc0 sc1
// AMD: global_atomic_cmpswap
func.func @ordered(%p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 4 : i32} {
  %one = arith.constant 1 : i32
  %0 = tile.atomic_rmw add, %p, %one : !tile.ptr<i32>, i32 -> i32
  %1 = tile.atomic_cas %p, %0, %one {order = 2 : i32, scope = 2 : i32} : !tile.ptr<i32>, i32 -> i32
  tile.store %p, %1 : !tile.ptr<i32>, i32
  return
}

// PTX-LABEL: .entry without_results
// PTX-NOT: fence
// PTX: red.relaxed.cta.global.max.s32
// PTX: red.relaxed.gpu.global.min.u64
// PTX: red.relaxed.gpu.global.and.b32
// PTX: atom.relaxed.gpu.global.exch.b32
// PTX: red.relaxed.gpu.global.add.f32
// PTX: red.relaxed.gpu.global.add.f64
// PTX: red.relaxed.gpu.global.add.noftz.f16
// SM90: red.relaxed.gpu.global.add.noftz.bf16
// SM80: fma.rn.bf16
// SM80: atom.relaxed.gpu.global.cas.b16
// PTX: max.f32
// PTX: atom.relaxed.gpu.global.cas.b32
// PTX: ret
// AMD-LABEL: without_results:
// AMD: global_atomic_smax v{{[0-9]+}}, v{{[0-9]+}}, s[{{[0-9:]+}}]{{$}}
// AMD: global_atomic_add_f32
// AMD: global_atomic_add_f64
func.func @without_results(%i: !tile.ptr<i32>, %l: !tile.ptr<i64>, %f: !tile.ptr<f32>, %d: !tile.ptr<f64>,
                           %h: !tile.ptr<f16>, %b: !tile.ptr<bf16>, %x: i32, %y: i64, %u: f32, %v: f64, %w: f16,
                           %z: bf16) attributes {tile.kernel, cta.warps = 4 : i32} {
  tile.atomic_rmw max, %i, %x {order = 0 : i32, scope = 0 : i32} : !tile.ptr<i32>, i32 -> i32
  tile.atomic_rmw umin, %l, %y {order = 0 : i32} : !tile.ptr<i64>, i64 -> i64
  tile.atomic_rmw and, %i, %x {order = 0 : i32} : !tile.ptr<i32>, i32 -> i32
  tile.atomic_rmw exchange, %i, %x {order = 0 : i32} : !tile.ptr<i32>, i32 -> i32
  tile.atomic_rmw fadd, %f, %u {order = 0 : i32} : !tile.ptr<f32>, f32 -> f32
  tile.atomic_rmw fadd, %d, %v {order = 0 : i32} : !tile.ptr<f64>, f64 -> f64
  tile.atomic_rmw fadd, %h, %w {order = 0 : i32} : !tile.ptr<f16>, f16 -> f16
  tile.atomic_rmw fadd, %b, %z {order = 0 : i32} : !tile.ptr<bf16>, bf16 -> bf16
  tile.atomic_rmw fmax, %f, %u {order = 0 : i32} : !tile.ptr<f32>, f32 -> f32
  return
}

// Neighbours of 16 bits are added in pairs.
// PTX-LABEL: .entry pairs
// PTX: red.relaxed.gpu.global.add.noftz.f16x2
// SM90: red.relaxed.gpu.global.add.noftz.bf16x2
// SM80: atom.relaxed.gpu.global.cas.b32
// PTX: ret
// AMD-LABEL: pairs:
// AMD: global_atomic_pk_add_f16
// AMD: global_atomic_pk_add_bf16
func.func @pairs(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %q: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %x: f16,
                 %y: bf16) attributes {tile.kernel, cta.warps = 1 : i32} {
  %i = tile.arange 0 : tensor<128xi32>
  %ps = tile.splat %p : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
  %pa = tile.addptr %ps, %i : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
  %qs = tile.splat %q : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>>
  %qa = tile.addptr %qs, %i : tensor<128x!tile.ptr<bf16>>, tensor<128xi32>
  %xs = tile.splat %x : f16 -> tensor<128xf16>
  %ys = tile.splat %y : bf16 -> tensor<128xbf16>
  tile.atomic_rmw fadd, %pa, %xs {order = 0 : i32} : tensor<128x!tile.ptr<f16>>, tensor<128xf16> -> tensor<128xf16>
  tile.atomic_rmw fadd, %qa, %ys {order = 0 : i32} : tensor<128x!tile.ptr<bf16>>, tensor<128xbf16> -> tensor<128xbf16>
  return
}

// Half of the lanes hold what the other half does: they get it from those.
// PTX-LABEL: .entry within_a_warp
// PTX-NOT: st.shared
// PTX: atom.relaxed.gpu.global.add.u32
// PTX-NOT: st.shared
// PTX: shfl.sync.idx
func.func @within_a_warp(%p: !tile.ptr<i32>) attributes {tile.kernel, cta.warps = 1 : i32} {
  %i = tile.arange 0 : tensor<16xi32>
  %s = tile.splat %p : !tile.ptr<i32> -> tensor<16x!tile.ptr<i32>>
  %at = tile.addptr %s, %i : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  %0 = tile.atomic_rmw add, %at, %i {order = 0 : i32} : tensor<16x!tile.ptr<i32>>, tensor<16xi32> -> tensor<16xi32>
  tile.store %at, %0 : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  return
}

// PTX-LABEL: .entry meeting
// PTX: bar.sync 0
// AMD-LABEL: meeting:
// AMD: global_store_dword
// AMD: s_barrier
// AMD: global_load_dword {{.*}} sc0 sc1
func.func @meeting(%p: !tile.ptr<i32>, %x: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
  tile.store %p, %x : !tile.ptr<i32>, i32
  tile.barrier
  %y = tile.load %p {isVolatile} : !tile.ptr<i32> -> i32
  tile.store %p, %y : !tile.ptr<i32>, i32
  return
}

// Exchanges are of bits, whatever else of the same width there is.
// PTX-LABEL: .entry exchanges
// PTX: atom.relaxed.gpu.global.exch.b64
// PTX: atom.relaxed.gpu.global.exch.b64
// PTX: atom.relaxed.gpu.global.exch.b32
// PTX: atom.relaxed.gpu.global.exch.b32
// AMD-LABEL: exchanges:
// AMD: global_atomic_swap_x2
// AMD: global_atomic_swap_x2
// AMD: global_atomic_swap v
// AMD: global_atomic_swap v
func.func @exchanges(%p: !tile.ptr<i64>, %q: !tile.ptr<f64>, %r: !tile.ptr<i32>, %s: !tile.ptr<f32>, %i: i64, %x: f64, %j: i32, %y: f32) attributes {tile.kernel, cta.warps = 1 : i32} {
  %0 = tile.atomic_rmw exchange, %p, %i {order = 0 : i32} : !tile.ptr<i64>, i64 -> i64
  %1 = tile.atomic_rmw exchange, %q, %x {order = 0 : i32} : !tile.ptr<f64>, f64 -> f64
  %2 = tile.atomic_rmw exchange, %r, %j {order = 0 : i32} : !tile.ptr<i32>, i32 -> i32
  %3 = tile.atomic_rmw exchange, %s, %y {order = 0 : i32} : !tile.ptr<f32>, f32 -> f32
  return
}
}
