// Layouts around dots: fragments of matrix instructions, staging, chained products.
// RUN: sectile-opt %s --assign-layouts --split-input-file | FileCheck %s

// The accumulator keeps its fragment through the loop; operands are loaded in whole vectors and
// converted once each; the result is converted for wide stores. Addresses are made where needed.
// CHECK-DAG: #[[ACC:.+]] = #cta.layout<"128x128, register [(0,1) (8,0)
// CHECK-DAG: #[[LA:.+]] = #cta.layout<"128x64, register [(0,1) (0,2) (0,4) {{.*}}], lane [(0,8) (0,16) (0,32) (1,0) (2,0)]
// CHECK-DAG: #[[LB:.+]] = #cta.layout<"64x128, register [(0,1) (0,2) (0,4) {{.*}}], lane [(0,8) (0,16) (0,32) (0,64) (1,0)]
// CHECK-LABEL: func.func @matmul
// CHECK-NOT: convert_layout
// CHECK: scf.for {{.*}} -> (tensor<128x128xf32, #[[ACC]]>)
// CHECK: tile.load {{.*}} -> tensor<128x64xf16, #[[LA]]>
// CHECK: tile.load {{.*}} -> tensor<64x128xf16, #[[LB]]>
// CHECK: %[[A:.+]] = cta.convert_layout %{{.*}} : tensor<128x64xf16, #[[LA]]>
// CHECK: %[[B:.+]] = cta.convert_layout %{{.*}} : tensor<64x128xf16, #[[LB]]>
// CHECK: cta.dot %[[A]], %[[B]], %{{.*}} by [16, 8, 16]
// CHECK: arith.truncf
// CHECK: %[[C:.+]] = cta.convert_layout %{{.*}} : tensor<128x128xf16, #[[ACC]]>
// CHECK-NEXT: tile.store %{{.*}}, %[[C]]
module attributes {cta.target = "sm_80"} {
  func.func @matmul(%a: !tile.ptr<f16> {tile.divisible = 16 : i64}, %b: !tile.ptr<f16> {tile.divisible = 16 : i64}, %c: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: i32, %lda: i32 {tile.divisible = 16 : i64}, %ldb: i32 {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %im = tile.arange 0 : tensor<128xi32>
    %ik = tile.arange 0 : tensor<64xi32>
    %lda1 = tile.splat %lda : i32 -> tensor<128xi32>
    %rowoff = arith.muli %im, %lda1 : tensor<128xi32>
    %rowa = tile.expand_dims %rowoff 1 : tensor<128xi32> -> tensor<128x1xi32>
    %rowab = tile.broadcast %rowa : tensor<128x1xi32> -> tensor<128x64xi32>
    %cola = tile.expand_dims %ik 0 : tensor<64xi32> -> tensor<1x64xi32>
    %colab = tile.broadcast %cola : tensor<1x64xi32> -> tensor<128x64xi32>
    %offa = arith.addi %rowab, %colab : tensor<128x64xi32>
    %ldb1 = tile.splat %ldb : i32 -> tensor<64xi32>
    %rowoffb = arith.muli %ik, %ldb1 : tensor<64xi32>
    %rowb = tile.expand_dims %rowoffb 1 : tensor<64xi32> -> tensor<64x1xi32>
    %rowbb = tile.broadcast %rowb : tensor<64x1xi32> -> tensor<64x128xi32>
    %colb = tile.expand_dims %im 0 : tensor<128xi32> -> tensor<1x128xi32>
    %colbb = tile.broadcast %colb : tensor<1x128xi32> -> tensor<64x128xi32>
    %offb = arith.addi %rowbb, %colbb : tensor<64x128xi32>
    %pa = tile.splat %a : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
    %pb = tile.splat %b : !tile.ptr<f16> -> tensor<64x128x!tile.ptr<f16>>
    %acc = scf.for %i = %c0 to %k step %c64 iter_args(%s = %zero) -> (tensor<128x128xf32>) : i32 {
      %ia = tile.splat %i : i32 -> tensor<128x64xi32>
      %oa = arith.addi %offa, %ia : tensor<128x64xi32>
      %qa = tile.addptr %pa, %oa : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
      %va = tile.load %qa : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
      %ib0 = arith.muli %i, %ldb : i32
      %ib = tile.splat %ib0 : i32 -> tensor<64x128xi32>
      %ob = arith.addi %offb, %ib : tensor<64x128xi32>
      %qb = tile.addptr %pb, %ob : tensor<64x128x!tile.ptr<f16>>, tensor<64x128xi32>
      %vb = tile.load %qb : tensor<64x128x!tile.ptr<f16>> -> tensor<64x128xf16>
      %d = cta.dot %va, %vb, %s by [16, 8, 16] : tensor<128x64xf16>, tensor<64x128xf16>, tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %rowc = tile.expand_dims %rowoff 1 : tensor<128xi32> -> tensor<128x1xi32>
    %rowcb = tile.broadcast %rowc : tensor<128x1xi32> -> tensor<128x128xi32>
    %colc = tile.broadcast %colb : tensor<1x128xi32> -> tensor<128x128xi32>
    %offc = arith.addi %rowcb, %colc : tensor<128x128xi32>
    %pc = tile.splat %c : !tile.ptr<f16> -> tensor<128x128x!tile.ptr<f16>>
    %qc = tile.addptr %pc, %offc : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xi32>
    %out = arith.truncf %acc : tensor<128x128xf32> to tensor<128x128xf16>
    tile.store %qc, %out : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xf16>
    return
  }
}

// -----

// All warps along the rows, so that the sums over columns stay within warps and the probabilities
// are the next dot's operand as they are; the queries are converted once, before the loop.
// CHECK-DAG: #[[F:.+]] = #cta.layout<"128x64, register [(0,1) (8,0) {{.*}}], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (32,0)]">
// CHECK-LABEL: func.func @attention
// CHECK: %[[Q:.+]] = cta.convert_layout %{{.*}} -> tensor<128x64xf16, #[[F]]>
// CHECK: scf.for
// CHECK: cta.dot %[[Q]], %{{.*}}, %{{.*}} by [16, 8, 16] : tensor<128x64xf16, #[[F]]>
// CHECK-NOT: cta.convert_layout
// CHECK: %[[P:.+]] = arith.truncf %{{.*}} : tensor<128x64xf32, #[[F]]> to tensor<128x64xf16, #[[F]]>
// CHECK: %[[V:.+]] = cta.convert_layout %{{.*}} : tensor<64x64xf16
// CHECK-NEXT: cta.dot %[[P]], %[[V]], %{{.*}} by [16, 8, 16]
// CHECK: scf.yield
// CHECK: cta.convert_layout %{{.*}} : tensor<128x64xf16, #[[F]]>
// CHECK-NOT: cta.convert_layout
module attributes {cta.target = "sm_80"} {
  func.func @attention(%q: !tile.ptr<f16> {tile.divisible = 16 : i64}, %k: !tile.ptr<f16> {tile.divisible = 16 : i64}, %v: !tile.ptr<f16> {tile.divisible = 16 : i64}, %o: !tile.ptr<f16> {tile.divisible = 16 : i64}, %lse: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) attributes {tile.kernel, cta.warps = 4 : i32} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %zs = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero1 = arith.constant dense<0.0> : tensor<128xf32>
    %ninf1 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %ninf = arith.constant dense<0xFF800000> : tensor<128x64xf32>
    %c64t = arith.constant dense<64> : tensor<128xi32>
    %c64t2 = arith.constant dense<64> : tensor<64xi32>
    %im = tile.arange 0 : tensor<128xi32>
    %in = tile.arange 0 : tensor<64xi32>
    %rq = arith.muli %im, %c64t : tensor<128xi32>
    %rq1 = tile.expand_dims %rq 1 : tensor<128xi32> -> tensor<128x1xi32>
    %rq2 = tile.broadcast %rq1 : tensor<128x1xi32> -> tensor<128x64xi32>
    %cq1 = tile.expand_dims %in 0 : tensor<64xi32> -> tensor<1x64xi32>
    %cq2 = tile.broadcast %cq1 : tensor<1x64xi32> -> tensor<128x64xi32>
    %offq = arith.addi %rq2, %cq2 : tensor<128x64xi32>
    %pq0 = tile.splat %q : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
    %pq = tile.addptr %pq0, %offq : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    %mq = tile.splat %n : i32 -> tensor<128xi32>
    %mq0 = arith.cmpi slt, %im, %mq : tensor<128xi32>
    %mq1 = tile.expand_dims %mq0 1 : tensor<128xi1> -> tensor<128x1xi1>
    %mq2 = tile.broadcast %mq1 : tensor<128x1xi1> -> tensor<128x64xi1>
    %vq = tile.load %pq mask %mq2 : tensor<128x64x!tile.ptr<f16>> mask tensor<128x64xi1> -> tensor<128x64xf16>
    %rk = arith.muli %in, %c64t2 : tensor<64xi32>
    %rk1 = tile.expand_dims %rk 1 : tensor<64xi32> -> tensor<64x1xi32>
    %rk2 = tile.broadcast %rk1 : tensor<64x1xi32> -> tensor<64x64xi32>
    %ck2 = tile.broadcast %cq1 : tensor<1x64xi32> -> tensor<64x64xi32>
    %offk = arith.addi %rk2, %ck2 : tensor<64x64xi32>
    %pk0 = tile.splat %k : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
    %pv0 = tile.splat %v : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
    %r:3 = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %zero, %m = %ninf1, %l = %zero1) -> (tensor<128x64xf32>, tensor<128xf32>, tensor<128xf32>) : i32 {
      %ki = arith.muli %i, %c64 : i32
      %kis = tile.splat %ki : i32 -> tensor<64x64xi32>
      %ok = arith.addi %offk, %kis : tensor<64x64xi32>
      %pk = tile.addptr %pk0, %ok : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
      %vk = tile.load %pk : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
      %kt = tile.permute %vk [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = cta.dot %vq, %kt, %zs by [16, 8, 16] : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      %is = tile.splat %i : i32 -> tensor<64xi32>
      %col = arith.addi %is, %in : tensor<64xi32>
      %col1 = tile.expand_dims %col 0 : tensor<64xi32> -> tensor<1x64xi32>
      %col2 = tile.broadcast %col1 : tensor<1x64xi32> -> tensor<128x64xi32>
      %row1 = tile.expand_dims %im 1 : tensor<128xi32> -> tensor<128x1xi32>
      %row2 = tile.broadcast %row1 : tensor<128x1xi32> -> tensor<128x64xi32>
      %mask = arith.cmpi sle, %col2, %row2 : tensor<128x64xi32>
      %sm = arith.select %mask, %s, %ninf : tensor<128x64xi1>, tensor<128x64xf32>
      %mx = tile.reduce %sm 1 : (tensor<128x64xf32>) -> tensor<128xf32> {
      ^bb0(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile.yield %z : f32
      }
      %mn = arith.maximumf %m, %mx : tensor<128xf32>
      %mn1 = tile.expand_dims %mn 1 : tensor<128xf32> -> tensor<128x1xf32>
      %mn2 = tile.broadcast %mn1 : tensor<128x1xf32> -> tensor<128x64xf32>
      %sd = arith.subf %sm, %mn2 : tensor<128x64xf32>
      %p = math.exp2 %sd : tensor<128x64xf32>
      %al0 = arith.subf %m, %mn : tensor<128xf32>
      %al = math.exp2 %al0 : tensor<128xf32>
      %ls = tile.reduce %p 1 : (tensor<128x64xf32>) -> tensor<128xf32> {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile.yield %z : f32
      }
      %l1 = arith.mulf %l, %al : tensor<128xf32>
      %ln = arith.addf %l1, %ls : tensor<128xf32>
      %al1 = tile.expand_dims %al 1 : tensor<128xf32> -> tensor<128x1xf32>
      %al2 = tile.broadcast %al1 : tensor<128x1xf32> -> tensor<128x64xf32>
      %acc1 = arith.mulf %acc, %al2 : tensor<128x64xf32>
      %ph = arith.truncf %p : tensor<128x64xf32> to tensor<128x64xf16>
      %pv = tile.addptr %pv0, %ok : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
      %vv = tile.load %pv : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
      %acc2 = cta.dot %ph, %vv, %acc1 by [16, 8, 16] : tensor<128x64xf16>, tensor<64x64xf16>, tensor<128x64xf32>
      scf.yield %acc2, %mn, %ln : tensor<128x64xf32>, tensor<128xf32>, tensor<128xf32>
    }
    %li = tile.expand_dims %r#2 1 : tensor<128xf32> -> tensor<128x1xf32>
    %li2 = tile.broadcast %li : tensor<128x1xf32> -> tensor<128x64xf32>
    %out = arith.divf %r#0, %li2 : tensor<128x64xf32>
    %oh = arith.truncf %out : tensor<128x64xf32> to tensor<128x64xf16>
    %po0 = tile.splat %o : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
    %po = tile.addptr %po0, %offq : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    tile.store %po, %oh mask %mq2 : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xf16> mask tensor<128x64xi1>
    %lg = math.log2 %r#2 : tensor<128xf32>
    %lo = arith.addf %r#1, %lg : tensor<128xf32>
    %pl0 = tile.splat %lse : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %pl = tile.addptr %pl0, %im : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    tile.store %pl, %lo mask %mq0 : tensor<128x!tile.ptr<f32>>, tensor<128xf32> mask tensor<128xi1>
    return
  }
}

// -----

// Fused multiply-adds: a square piece of the result to a thread of 64 lanes, wide reads and writes.
// CHECK-DAG: #[[ACC:.+]] = #cta.layout<"64x64, register [(0,1) (0,2) (1,0) (2,0)], lane [(0,4) (0,8) (0,16) (4,0) (8,0) (16,0)], warp [(0,32) (32,0)]">
// CHECK-LABEL: func.func @fma
// CHECK-NOT: convert_layout
// CHECK: cta.dot {{.*}} tensor<64x64xf32, #[[ACC]]>
// CHECK-NOT: convert_layout
// CHECK: tile.store
#a = #cta.layout<"64x32, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (1,0) (2,0) (4,0) (8,0) (16,0) (32,0)]">
#b = #cta.layout<"32x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,0) (2,0) (4,0) (8,0) (16,0)]">
module attributes {cta.target = "gfx942"} {
  func.func @fma(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64}, %z: !tile.ptr<f32> {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %i = tile.arange 0 : tensor<2048xi32>
    %px0 = tile.splat %x : !tile.ptr<f32> -> tensor<2048x!tile.ptr<f32>>
    %px = tile.addptr %px0, %i : tensor<2048x!tile.ptr<f32>>, tensor<2048xi32>
    %vx = tile.load %px : tensor<2048x!tile.ptr<f32>> -> tensor<2048xf32>
    %a = tile.reshape %vx : tensor<2048xf32> -> tensor<64x32xf32>
    %py0 = tile.splat %y : !tile.ptr<f32> -> tensor<2048x!tile.ptr<f32>>
    %py = tile.addptr %py0, %i : tensor<2048x!tile.ptr<f32>>, tensor<2048xi32>
    %vy = tile.load %py : tensor<2048x!tile.ptr<f32>> -> tensor<2048xf32>
    %b = tile.reshape %vy : tensor<2048xf32> -> tensor<32x64xf32>
    %sa = cta.alloc %a : !cta.buffer<64x32xf32, #a> from tensor<64x32xf32>
    %sb = cta.alloc %b : !cta.buffer<32x64xf32, #b> from tensor<32x64xf32>
    %d = cta.dot %sa, %sb, %zero : !cta.buffer<64x32xf32, #a>, !cta.buffer<32x64xf32, #b>, tensor<64x64xf32>
    %iz = tile.arange 0 : tensor<4096xi32>
    %iz2 = tile.reshape %iz : tensor<4096xi32> -> tensor<64x64xi32>
    %pz0 = tile.splat %z : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
    %pz = tile.addptr %pz0, %iz2 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
    tile.store %pz, %d : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
    return
  }
}

// -----

// Bytes that are loaded beside multiply-adds: threads along the rows, so that an instruction reads
// whole sectors, and nothing is converted. Sums along rows stay within warps then; a thread that
// would store several rows of every few leaves all but one to lanes that hold the same.
// CHECK-DAG: #[[ACC:.+]] = #cta.layout<"32x32, register [(0,1) (1,0)], lane [(0,2) (0,4) (0,8) (0,16) (2,0) (4,0)], warp [(8,0) (16,0)]">
// CHECK-DAG: #[[SUM:.+]] = #cta.layout<"32, lane [(1) (0) (0) (0) (2) (4)], warp [(8) (16)]">
// CHECK-LABEL: func.func @masked
// CHECK: cta.dot {{.*}} tensor<32x32xf32, #[[ACC]]>
// CHECK: tile.load {{.*}} -> tensor<32x32xi8, #[[ACC]]>
// CHECK-NOT: convert_layout
// CHECK: %[[S:.+]] = cta.convert_layout {{.*}} -> tensor<32xf32, #[[SUM]]>
// CHECK-NEXT: tile.store %{{.*}}, %[[S]]
#a = #cta.layout<"32x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,0) (2,0) (4,0) (8,0) (16,0)]">
#b = #cta.layout<"64x32, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (1,0) (2,0) (4,0) (8,0) (16,0) (32,0)]">
module attributes {cta.target = "gfx942"} {
  func.func @masked(%m: !tile.ptr<i8> {tile.divisible = 16 : i64}, %z: !tile.ptr<f32>, %stride: i32 {tile.divisible = 16 : i64}) attributes {tile.kernel, cta.warps = 4 : i32} {
    %zero = arith.constant dense<0.0> : tensor<32x32xf32>
    %none = arith.constant dense<0> : tensor<32x32xi8>
    %x = arith.constant dense<1.0> : tensor<32x64xf32>
    %y = arith.constant dense<1.0> : tensor<64x32xf32>
    %sa = cta.alloc %x : !cta.buffer<32x64xf32, #a> from tensor<32x64xf32>
    %sb = cta.alloc %y : !cta.buffer<64x32xf32, #b> from tensor<64x32xf32>
    %d = cta.dot %sa, %sb, %zero : !cta.buffer<32x64xf32, #a>, !cta.buffer<64x32xf32, #b>, tensor<32x32xf32>
    %i = tile.arange 0 : tensor<32xi32>
    %s = tile.splat %stride : i32 -> tensor<32xi32>
    %r = arith.muli %i, %s : tensor<32xi32>
    %r1 = tile.expand_dims %r 1 : tensor<32xi32> -> tensor<32x1xi32>
    %r2 = tile.broadcast %r1 : tensor<32x1xi32> -> tensor<32x32xi32>
    %c1 = tile.expand_dims %i 0 : tensor<32xi32> -> tensor<1x32xi32>
    %c2 = tile.broadcast %c1 : tensor<1x32xi32> -> tensor<32x32xi32>
    %o = arith.addi %r2, %c2 : tensor<32x32xi32>
    %pm0 = tile.splat %m : !tile.ptr<i8> -> tensor<32x32x!tile.ptr<i8>>
    %pm = tile.addptr %pm0, %o : tensor<32x32x!tile.ptr<i8>>, tensor<32x32xi32>
    %v = tile.load %pm : tensor<32x32x!tile.ptr<i8>> -> tensor<32x32xi8>
    %seen = arith.cmpi ne, %v, %none : tensor<32x32xi8>
    %e = arith.select %seen, %d, %zero : tensor<32x32xi1>, tensor<32x32xf32>
    %sum = tile.reduce %e 1 : (tensor<32x32xf32>) -> tensor<32xf32> {
    ^bb0(%p: f32, %q: f32):
      %t = arith.addf %p, %q : f32
      tile.yield %t : f32
    }
    %pz0 = tile.splat %z : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>>
    %pz = tile.addptr %pz0, %i : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
    tile.store %pz, %sum : tensor<32x!tile.ptr<f32>>, tensor<32xf32>
    return
  }
}
