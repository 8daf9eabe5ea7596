// A signalling NaN of bf16 bits that is an integer in one place and a number in another.
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8>, %arg2: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg3: !tile.ptr<i32>, %arg4: !tile.ptr<i64> {tile.divisible = 16 : i64}, %arg5: !tile.ptr<f16>, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64> {tile.divisible = 16 : i64}, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg12: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1>, %arg15: !tile.ptr<i8>, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32>, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN> {tile.divisible = 16 : i64}, %arg24: !tile.ptr<f8E5M2>, %arg25: !tile.ptr<f8E4M3FNUZ>, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c16_i32 = arith.constant 16 : i32
    %1 = arith.muli %0, %c16_i32 : i32
    %c16_i32_0 = arith.constant 16 : i32
    %2 = arith.addi %1, %c16_i32_0 : i32
    %3 = tile.addptr %arg17, %2 : !tile.ptr<i32>, i32
    %4 = tile.program_id 0
    %c16_i32_1 = arith.constant 16 : i32
    %5 = arith.muli %4, %c16_i32_1 : i32
    %c0_i32 = arith.constant 0 : i32
    %6 = arith.addi %5, %c0_i32 : i32
    %7 = tile.addptr %arg17, %6 : !tile.ptr<i32>, i32
    %8 = tile.hint %7 {divisible = array<i64: 16>} : !tile.ptr<i32>
    %9 = tile.program_id 0
    %c16_i32_2 = arith.constant 16 : i32
    %10 = arith.muli %9, %c16_i32_2 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %11 = arith.addi %10, %c8192_i32 : i32
    %12 = tile.addptr %arg3, %11 : !tile.ptr<i32>, i32
    %13 = tile.program_id 0
    %c128_i32 = arith.constant 128 : i32
    %14 = arith.muli %13, %c128_i32 : i32
    %c8320_i32 = arith.constant 8320 : i32
    %15 = arith.addi %14, %c8320_i32 : i32
    %16 = tile.addptr %arg2, %15 : !tile.ptr<i16>, i32
    %17 = tile.program_id 0
    %c128_i32_3 = arith.constant 128 : i32
    %18 = arith.muli %17, %c128_i32_3 : i32
    %c8192_i32_4 = arith.constant 8192 : i32
    %19 = arith.addi %18, %c8192_i32_4 : i32
    %20 = tile.addptr %arg2, %19 : !tile.ptr<i16>, i32
    %21 = tile.hint %20 {divisible = array<i64: 16>} : !tile.ptr<i16>
    %22 = tile.program_id 0
    %23 = tile.splat %arg28 : i32 -> tensor<2x32xi32>
    %cst = arith.constant dense<0> : tensor<2x32xi32>
    %24 = tile.arange 0 : tensor<2xi32>
    %25 = tile.expand_dims %24 1 : tensor<2xi32> -> tensor<2x1xi32>
    %26 = tile.broadcast %25 : tensor<2x1xi32> -> tensor<2x32xi32>
    %cst_5 = arith.constant dense<32> : tensor<2x32xi32>
    %27 = arith.muli %26, %cst_5 : tensor<2x32xi32>
    %28 = arith.addi %cst, %27 : tensor<2x32xi32>
    %29 = tile.arange 0 : tensor<32xi32>
    %30 = tile.expand_dims %29 0 : tensor<32xi32> -> tensor<1x32xi32>
    %31 = tile.broadcast %30 : tensor<1x32xi32> -> tensor<2x32xi32>
    %cst_6 = arith.constant dense<1> : tensor<2x32xi32>
    %32 = arith.muli %31, %cst_6 : tensor<2x32xi32>
    %33 = arith.addi %28, %32 : tensor<2x32xi32>
    %34 = arith.addi %33, %23 : tensor<2x32xi32>
    %cst_7 = arith.constant dense<0> : tensor<2x32xi32>
    %35 = arith.cmpi sge, %34, %cst_7 : tensor<2x32xi32>
    %cst_8 = arith.constant dense<128> : tensor<2x32xi32>
    %36 = arith.cmpi slt, %34, %cst_8 : tensor<2x32xi32>
    %37 = arith.andi %35, %36 : tensor<2x32xi1>
    %38 = tile.splat %21 : !tile.ptr<i16> -> tensor<2x32x!tile.ptr<i16>>
    %39 = tile.addptr %38, %34 : tensor<2x32x!tile.ptr<i16>>, tensor<2x32xi32>
    %40 = tile.load %39 mask %37 : tensor<2x32x!tile.ptr<i16>> mask tensor<2x32xi1> -> tensor<2x32xi16>
    %41 = tile.arange 2 : tensor<32xi32>
    %42 = tile.expand_dims %41 0 : tensor<32xi32> -> tensor<1x32xi32>
    %43 = tile.broadcast %42 : tensor<1x32xi32> -> tensor<2x32xi32>
    %44 = arith.trunci %43 : tensor<2x32xi32> to tensor<2x32xi16>
    tile.store %39, %44 mask %37 : tensor<2x32x!tile.ptr<i16>>, tensor<2x32xi16> mask tensor<2x32xi1>
    %45 = tile.splat %arg29 : i32 -> tensor<2x32xi32>
    %46 = arith.trunci %45 : tensor<2x32xi32> to tensor<2x32xi16>
    %c2_i32 = arith.constant 2 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32_9 = arith.constant 0 : i32
    %c64_i32 = arith.constant 64 : i32
    %c2_i32_10 = arith.constant 2 : i32
    %c0_i32_11 = arith.constant 0 : i32
    %47 = tile.addptr %21, %c0_i32_11 : !tile.ptr<i16>, i32
    %48 = tile.make_view %47, [%c2_i32, %c64_i32], [%c1_i32, %c2_i32_10] : !tile.ptr<i16>, [i32, i32], [i32, i32] -> !tile.view<2xi16>
    tile.store_block %48[%c0_i32_9, %arg29], %46 {eviction = 2 : i32} : !tile.view<2xi16>, [i32, i32], tensor<2x32xi16>
    tile.store %39, %40 mask %37 : tensor<2x32x!tile.ptr<i16>>, tensor<2x32xi16> mask tensor<2x32xi1>
    %49 = tile.load %39 mask %37 : tensor<2x32x!tile.ptr<i16>> mask tensor<2x32xi1> -> tensor<2x32xi16>
    %50 = tile.program_id 0
    %c64_i32_12 = arith.constant 64 : i32
    %51 = arith.muli %50, %c64_i32_12 : i32
    %c0_i32_13 = arith.constant 0 : i32
    %52 = arith.addi %51, %c0_i32_13 : i32
    %53 = tile.splat %arg16 : !tile.ptr<i16> -> tensor<2x32x!tile.ptr<i16>>
    %cst_14 = arith.constant dense<0> : tensor<2x32xi32>
    %54 = tile.arange 0 : tensor<2xi32>
    %55 = tile.expand_dims %54 1 : tensor<2xi32> -> tensor<2x1xi32>
    %56 = tile.broadcast %55 : tensor<2x1xi32> -> tensor<2x32xi32>
    %cst_15 = arith.constant dense<32> : tensor<2x32xi32>
    %57 = arith.muli %56, %cst_15 : tensor<2x32xi32>
    %58 = arith.addi %cst_14, %57 : tensor<2x32xi32>
    %59 = tile.arange 0 : tensor<32xi32>
    %60 = tile.expand_dims %59 0 : tensor<32xi32> -> tensor<1x32xi32>
    %61 = tile.broadcast %60 : tensor<1x32xi32> -> tensor<2x32xi32>
    %cst_16 = arith.constant dense<1> : tensor<2x32xi32>
    %62 = arith.muli %61, %cst_16 : tensor<2x32xi32>
    %63 = arith.addi %58, %62 : tensor<2x32xi32>
    %64 = tile.splat %52 : i32 -> tensor<2x32xi32>
    %65 = arith.addi %63, %64 : tensor<2x32xi32>
    %66 = tile.addptr %53, %65 : tensor<2x32x!tile.ptr<i16>>, tensor<2x32xi32>
    tile.store %66, %49 : tensor<2x32x!tile.ptr<i16>>, tensor<2x32xi16>
    %c63_i32 = arith.constant 63 : i32
    %67 = tile.addptr %arg3, %c63_i32 : !tile.ptr<i32>, i32
    %68 = tile.load %67 : !tile.ptr<i32> -> i32
    %69 = tile.splat %68 : i32 -> tensor<2x2xi32>
    %cst_17 = arith.constant dense<0> : tensor<2x2xi32>
    %70 = tile.arange 0 : tensor<2xi32>
    %71 = tile.expand_dims %70 0 : tensor<2xi32> -> tensor<1x2xi32>
    %72 = tile.broadcast %71 : tensor<1x2xi32> -> tensor<2x2xi32>
    %cst_18 = arith.constant dense<1> : tensor<2x2xi32>
    %73 = arith.muli %72, %cst_18 : tensor<2x2xi32>
    %74 = arith.addi %cst_17, %73 : tensor<2x2xi32>
    %75 = tile.arange 0 : tensor<2xi32>
    %76 = tile.expand_dims %75 1 : tensor<2xi32> -> tensor<2x1xi32>
    %77 = tile.broadcast %76 : tensor<2x1xi32> -> tensor<2x2xi32>
    %cst_19 = arith.constant dense<2> : tensor<2x2xi32>
    %78 = arith.muli %77, %cst_19 : tensor<2x2xi32>
    %79 = arith.addi %74, %78 : tensor<2x2xi32>
    %80 = arith.addi %79, %69 : tensor<2x2xi32>
    %cst_20 = arith.constant dense<127> : tensor<2x2xi32>
    %81 = arith.andi %80, %cst_20 : tensor<2x2xi32>
    %82 = tile.splat %21 : !tile.ptr<i16> -> tensor<2x2x!tile.ptr<i16>>
    %83 = tile.addptr %82, %81 : tensor<2x2x!tile.ptr<i16>>, tensor<2x2xi32>
    %84 = tile.load %83 {cache = 4 : i32, isVolatile} : tensor<2x2x!tile.ptr<i16>> -> tensor<2x2xi16>
    %85 = tile.arange 3 : tensor<2xi32>
    %86 = tile.expand_dims %85 1 : tensor<2xi32> -> tensor<2x1xi32>
    %87 = tile.broadcast %86 : tensor<2x1xi32> -> tensor<2x2xi32>
    %88 = arith.trunci %87 : tensor<2x2xi32> to tensor<2x2xi16>
    %cst_21 = arith.constant dense<15> : tensor<2x2xi16>
    %89 = arith.andi %88, %cst_21 : tensor<2x2xi16>
    %90 = arith.shli %84, %89 : tensor<2x2xi16>
    %c1_i32_22 = arith.constant 1 : i32
    %c2_i32_23 = arith.constant 2 : i32
    %c0_i32_24 = arith.constant 0 : i32
    %c2_i32_25 = arith.constant 2 : i32
    %c1_i32_26 = arith.constant 1 : i32
    %c-1_i32 = arith.constant -1 : i32
    %c40_i32 = arith.constant 40 : i32
    %91 = tile.addptr %16, %c40_i32 : !tile.ptr<i16>, i32
    %92 = tile.make_view %91, [%c1_i32_22, %c2_i32_25], [%c2_i32_23, %c1_i32_26] : !tile.ptr<i16>, [i32, i32], [i32, i32] -> !tile.view<2xi16>
    tile.store_block %92[%c0_i32_24, %c-1_i32], %90 : !tile.view<2xi16>, [i32, i32], tensor<2x2xi16>
    %93 = arith.bitcast %49 : tensor<2x32xi16> to tensor<2x32xbf16>
    %c120_i32 = arith.constant 120 : i32
    tile.store %12, %c120_i32 : !tile.ptr<i32>, i32
    %94 = tile.load %12 : !tile.ptr<i32> -> i32
    %c0_i32_27 = arith.constant 0 : i32
    %c3_i32 = arith.constant 3 : i32
    tile.store %8, %c3_i32 : !tile.ptr<i32>, i32
    %95 = tile.load %8 : !tile.ptr<i32> -> i32
    %c1_i32_28 = arith.constant 1 : i32
    %96 = tile.splat %22 : i32 -> tensor<2xi32>
    %97 = arith.sitofp %96 : tensor<2xi32> to tensor<2xf32>
    %98 = tile.fp_cast %97 {rounding = 1 : i32} : tensor<2xf32> -> tensor<2xf8E5M2FNUZ>
    %99:2 = scf.for %arg30 = %c0_i32_27 to %95 step %c1_i32_28 iter_args(%arg31 = %94, %arg32 = %98) -> (i32, tensor<2xf8E5M2FNUZ>)  : i32 {
      %c0_i32_52 = arith.constant 0 : i32
      %c1_i32_53 = arith.constant 1 : i32
      %145 = arith.remsi %arg31, %c1_i32_53 : i32
      %146 = arith.cmpi eq, %145, %c0_i32_52 : i32
      tile.assume %146
      %cst_54 = arith.constant dense<0.000000e+00> : tensor<2xf8E5M2FNUZ>
      %c1_i32_55 = arith.constant 1 : i32
      %147 = arith.shrsi %arg31, %c1_i32_55 : i32
      scf.yield %147, %cst_54 : i32, tensor<2xf8E5M2FNUZ>
    } {cta.unroll = 2 : i32}
    %c0_i32_29 = arith.constant 0 : i32
    %c-3_i32 = arith.constant -3 : i32
    %c2_i32_30 = arith.constant 2 : i32
    %100:2 = scf.for %arg30 = %c-3_i32 to %c0_i32_29 step %c2_i32_30 iter_args(%arg31 = %93, %arg32 = %93) -> (tensor<2x32xbf16>, tensor<2x32xbf16>)  : i32 {
      %c0_i32_52 = arith.constant 0 : i32
      %c0_i32_53 = arith.constant 0 : i32
      %c1_i32_54 = arith.constant 1 : i32
      %145 = scf.for %arg33 = %c0_i32_53 to %c0_i32_52 step %c1_i32_54 iter_args(%arg34 = %93) -> (tensor<2x32xbf16>)  : i32 {
        %cst_55 = arith.constant dense<0> : tensor<32xi32>
        %148 = tile.splat %16 : !tile.ptr<i16> -> tensor<32x!tile.ptr<i16>>
        %149 = tile.addptr %148, %cst_55 : tensor<32x!tile.ptr<i16>>, tensor<32xi32>
        %150 = tile.load %149 {cache = 3 : i32} : tensor<32x!tile.ptr<i16>> -> tensor<32xi16>
        %cst_56 = arith.constant dense<0> : tensor<32xi32>
        %151 = tile.arange 0 : tensor<32xi32>
        %cst_57 = arith.constant dense<1> : tensor<32xi32>
        %152 = arith.muli %151, %cst_57 : tensor<32xi32>
        %153 = arith.addi %cst_56, %152 : tensor<32xi32>
        %cst_58 = arith.constant dense<80> : tensor<32xi32>
        %154 = arith.addi %153, %cst_58 : tensor<32xi32>
        %155 = tile.splat %16 : !tile.ptr<i16> -> tensor<32x!tile.ptr<i16>>
        %156 = tile.addptr %155, %154 : tensor<32x!tile.ptr<i16>>, tensor<32xi32>
        %c11_i32 = arith.constant 11 : i32
        %157 = tile.splat %c11_i32 : i32 -> tensor<32xi32>
        %cst_59 = arith.constant dense<0> : tensor<32xi32>
        %158 = tile.arange 0 : tensor<32xi32>
        %cst_60 = arith.constant dense<1> : tensor<32xi32>
        %159 = arith.muli %158, %cst_60 : tensor<32xi32>
        %160 = arith.addi %cst_59, %159 : tensor<32xi32>
        %cst_61 = arith.constant dense<16> : tensor<32xi32>
        %161 = arith.addi %160, %cst_61 : tensor<32xi32>
        %162 = tile.splat %arg3 : !tile.ptr<i32> -> tensor<32x!tile.ptr<i32>>
        %163 = tile.addptr %162, %161 : tensor<32x!tile.ptr<i32>>, tensor<32xi32>
        %164 = tile.load %163 : tensor<32x!tile.ptr<i32>> -> tensor<32xi32>
        %165 = arith.cmpi slt, %157, %164 : tensor<32xi32>
        tile.store %156, %150 mask %165 {cache = 5 : i32} : tensor<32x!tile.ptr<i16>>, tensor<32xi16> mask tensor<32xi1>
        tile.barrier
        %cst_62 = arith.constant dense<0> : tensor<32x2x2xi32>
        %166 = tile.arange 0 : tensor<2xi32>
        %167 = tile.expand_dims %166 0 : tensor<2xi32> -> tensor<1x2xi32>
        %168 = tile.expand_dims %167 1 : tensor<1x2xi32> -> tensor<1x1x2xi32>
        %169 = tile.broadcast %168 : tensor<1x1x2xi32> -> tensor<32x2x2xi32>
        %cst_63 = arith.constant dense<1> : tensor<32x2x2xi32>
        %170 = arith.subi %cst_63, %169 : tensor<32x2x2xi32>
        %cst_64 = arith.constant dense<1> : tensor<32x2x2xi32>
        %171 = arith.muli %170, %cst_64 : tensor<32x2x2xi32>
        %172 = arith.addi %cst_62, %171 : tensor<32x2x2xi32>
        %173 = tile.arange 0 : tensor<2xi32>
        %174 = tile.expand_dims %173 0 : tensor<2xi32> -> tensor<1x2xi32>
        %175 = tile.expand_dims %174 2 : tensor<1x2xi32> -> tensor<1x2x1xi32>
        %176 = tile.broadcast %175 : tensor<1x2x1xi32> -> tensor<32x2x2xi32>
        %cst_65 = arith.constant dense<2> : tensor<32x2x2xi32>
        %177 = arith.muli %176, %cst_65 : tensor<32x2x2xi32>
        %178 = arith.addi %172, %177 : tensor<32x2x2xi32>
        %179 = tile.arange 0 : tensor<32xi32>
        %180 = tile.expand_dims %179 1 : tensor<32xi32> -> tensor<32x1xi32>
        %181 = tile.expand_dims %180 2 : tensor<32x1xi32> -> tensor<32x1x1xi32>
        %182 = tile.broadcast %181 : tensor<32x1x1xi32> -> tensor<32x2x2xi32>
        %cst_66 = arith.constant dense<4> : tensor<32x2x2xi32>
        %183 = arith.muli %182, %cst_66 : tensor<32x2x2xi32>
        %184 = arith.addi %178, %183 : tensor<32x2x2xi32>
        %cst_67 = arith.constant dense<1> : tensor<32x2x2xi32>
        %185 = arith.muli %184, %cst_67 : tensor<32x2x2xi32>
        %cst_68 = arith.constant dense<0> : tensor<32x2x2xi32>
        %186 = arith.addi %185, %cst_68 : tensor<32x2x2xi32>
        %187 = tile.splat %16 : !tile.ptr<i16> -> tensor<32x2x2x!tile.ptr<i16>>
        %188 = tile.addptr %187, %186 : tensor<32x2x2x!tile.ptr<i16>>, tensor<32x2x2xi32>
        %189 = tile.load %188 : tensor<32x2x2x!tile.ptr<i16>> -> tensor<32x2x2xi16>
        %190 = tile.arange 0 : tensor<32xi32>
        %191 = tile.expand_dims %190 1 : tensor<32xi32> -> tensor<32x1xi32>
        %192 = tile.expand_dims %191 2 : tensor<32x1xi32> -> tensor<32x1x1xi32>
        %193 = tile.broadcast %192 : tensor<32x1x1xi32> -> tensor<32x2x2xi32>
        %194 = arith.trunci %193 : tensor<32x2x2xi32> to tensor<32x2x2xi16>
        %c32_i32_69 = arith.constant 32 : i32
        %c4_i64 = arith.constant 4 : i64
        %c0_i32_70 = arith.constant 0 : i32
        %c2_i32_71 = arith.constant 2 : i32
        %c1_i32_72 = arith.constant 1 : i32
        %c0_i32_73 = arith.constant 0 : i32
        %c2_i32_74 = arith.constant 2 : i32
        %c2_i32_75 = arith.constant 2 : i32
        %c-1_i32_76 = arith.constant -1 : i32
        %c0_i32_77 = arith.constant 0 : i32
        %195 = tile.addptr %16, %c0_i32_77 : !tile.ptr<i16>, i32
        %196 = tile.make_view %195, [%c32_i32_69, %c2_i32_71, %c2_i32_74], [%c4_i64, %c1_i32_72, %c2_i32_75] : !tile.ptr<i16>, [i32, i32, i32], [i64, i32, i32] -> !tile.view<3xi16>
        tile.store_block %196[%c0_i32_70, %c0_i32_73, %c-1_i32_76], %194 {eviction = 1 : i32} : !tile.view<3xi16>, [i32, i32, i32], tensor<32x2x2xi16>
        tile.store %188, %189 : tensor<32x2x2x!tile.ptr<i16>>, tensor<32x2x2xi16>
        %197 = tile.load %188 : tensor<32x2x2x!tile.ptr<i16>> -> tensor<32x2x2xi16>
        %198 = tile.program_id 0
        %c128_i32_78 = arith.constant 128 : i32
        %199 = arith.muli %198, %c128_i32_78 : i32
        %c64_i32_79 = arith.constant 64 : i32
        %200 = arith.addi %199, %c64_i32_79 : i32
        %201 = tile.addptr %arg16, %200 : !tile.ptr<i16>, i32
        %c21_i32 = arith.constant 21 : i32
        %c4_i32 = arith.constant 4 : i32
        %c2_i32_80 = arith.constant 2 : i32
        %c2_i32_81 = arith.constant 2 : i32
        %c1_i32_82 = arith.constant 1 : i32
        %c1_i32_83 = arith.constant 1 : i32
        %202 = tile.make_view %201, [%c21_i32, %c2_i32_80, %c1_i32_82], [%c4_i32, %c2_i32_81, %c1_i32_83] : !tile.ptr<i16>, [i32, i32, i32], [i32, i32, i32] -> !tile.view<3xi16>
        %c0_i32_84 = arith.constant 0 : i32
        %c0_i32_85 = arith.constant 0 : i32
        %c0_i32_86 = arith.constant 0 : i32
        tile.store_block %202[%c0_i32_84, %c0_i32_85, %c0_i32_86], %197 : !tile.view<3xi16>, [i32, i32, i32], tensor<32x2x2xi16>
        %203 = arith.maximumf %arg34, %arg34 : tensor<2x32xbf16>
        scf.yield %203 : tensor<2x32xbf16>
      }
      %c20_i32 = arith.constant 20 : i32
      tile.store %3, %c20_i32 : !tile.ptr<i32>, i32
      %146 = arith.maximumf %arg31, %93 : tensor<2x32xbf16>
      %147 = arith.mulf %arg32, %145 : tensor<2x32xbf16>
      scf.yield %146, %147 : tensor<2x32xbf16>, tensor<2x32xbf16>
    }
    tile.barrier
    %101 = tile.program_id 0
    %c64_i32_31 = arith.constant 64 : i32
    %102 = arith.muli %101, %c64_i32_31 : i32
    %c0_i32_32 = arith.constant 0 : i32
    %103 = arith.addi %102, %c0_i32_32 : i32
    %104 = tile.splat %arg20 : !tile.ptr<bf16> -> tensor<2x32x!tile.ptr<bf16>>
    %cst_33 = arith.constant dense<0> : tensor<2x32xi32>
    %105 = tile.arange 0 : tensor<2xi32>
    %106 = tile.expand_dims %105 1 : tensor<2xi32> -> tensor<2x1xi32>
    %107 = tile.broadcast %106 : tensor<2x1xi32> -> tensor<2x32xi32>
    %cst_34 = arith.constant dense<32> : tensor<2x32xi32>
    %108 = arith.muli %107, %cst_34 : tensor<2x32xi32>
    %109 = arith.addi %cst_33, %108 : tensor<2x32xi32>
    %110 = tile.arange 0 : tensor<32xi32>
    %111 = tile.expand_dims %110 0 : tensor<32xi32> -> tensor<1x32xi32>
    %112 = tile.broadcast %111 : tensor<1x32xi32> -> tensor<2x32xi32>
    %cst_35 = arith.constant dense<1> : tensor<2x32xi32>
    %113 = arith.muli %112, %cst_35 : tensor<2x32xi32>
    %114 = arith.addi %109, %113 : tensor<2x32xi32>
    %115 = tile.splat %103 : i32 -> tensor<2x32xi32>
    %116 = arith.addi %114, %115 : tensor<2x32xi32>
    %117 = tile.addptr %104, %116 : tensor<2x32x!tile.ptr<bf16>>, tensor<2x32xi32>
    tile.store %117, %100#1 : tensor<2x32x!tile.ptr<bf16>>, tensor<2x32xbf16>
    %118 = tile.program_id 0
    %c64_i32_36 = arith.constant 64 : i32
    %119 = arith.muli %118, %c64_i32_36 : i32
    %c64_i32_37 = arith.constant 64 : i32
    %120 = arith.addi %119, %c64_i32_37 : i32
    %121 = tile.splat %arg20 : !tile.ptr<bf16> -> tensor<2x32x!tile.ptr<bf16>>
    %cst_38 = arith.constant dense<0> : tensor<2x32xi32>
    %122 = tile.arange 0 : tensor<2xi32>
    %123 = tile.expand_dims %122 1 : tensor<2xi32> -> tensor<2x1xi32>
    %124 = tile.broadcast %123 : tensor<2x1xi32> -> tensor<2x32xi32>
    %cst_39 = arith.constant dense<32> : tensor<2x32xi32>
    %125 = arith.muli %124, %cst_39 : tensor<2x32xi32>
    %126 = arith.addi %cst_38, %125 : tensor<2x32xi32>
    %127 = tile.arange 0 : tensor<32xi32>
    %128 = tile.expand_dims %127 0 : tensor<32xi32> -> tensor<1x32xi32>
    %129 = tile.broadcast %128 : tensor<1x32xi32> -> tensor<2x32xi32>
    %cst_40 = arith.constant dense<1> : tensor<2x32xi32>
    %130 = arith.muli %129, %cst_40 : tensor<2x32xi32>
    %131 = arith.addi %126, %130 : tensor<2x32xi32>
    %132 = tile.splat %120 : i32 -> tensor<2x32xi32>
    %133 = arith.addi %131, %132 : tensor<2x32xi32>
    %134 = tile.addptr %121, %133 : tensor<2x32x!tile.ptr<bf16>>, tensor<2x32xi32>
    tile.store %134, %100#0 : tensor<2x32x!tile.ptr<bf16>>, tensor<2x32xbf16>
    %135 = tile.program_id 0
    %c2_i32_41 = arith.constant 2 : i32
    %136 = arith.muli %135, %c2_i32_41 : i32
    %c2_i32_42 = arith.constant 2 : i32
    %137 = arith.addi %136, %c2_i32_42 : i32
    %138 = tile.addptr %arg26, %137 : !tile.ptr<f8E5M2FNUZ>, i32
    %c2_i32_43 = arith.constant 2 : i32
    %c1_i32_44 = arith.constant 1 : i32
    %139 = tile.make_view %138, [%c2_i32_43], [%c1_i32_44] : !tile.ptr<f8E5M2FNUZ>, [i32], [i32] -> !tile.view<1xf8E5M2FNUZ>
    %c0_i32_45 = arith.constant 0 : i32
    tile.store_block %139[%c0_i32_45], %99#1 : !tile.view<1xf8E5M2FNUZ>, [i32], tensor<2xf8E5M2FNUZ>
    %140 = tile.program_id 0
    %c64_i32_46 = arith.constant 64 : i32
    %141 = arith.muli %140, %c64_i32_46 : i32
    %c128_i32_47 = arith.constant 128 : i32
    %142 = arith.addi %141, %c128_i32_47 : i32
    %143 = tile.addptr %arg20, %142 : !tile.ptr<bf16>, i32
    %c2_i32_48 = arith.constant 2 : i32
    %c32_i32 = arith.constant 32 : i32
    %c5_i32 = arith.constant 5 : i32
    %c1_i32_49 = arith.constant 1 : i32
    %144 = tile.make_view %143, [%c2_i32_48, %c5_i32], [%c32_i32, %c1_i32_49] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %c0_i32_50 = arith.constant 0 : i32
    %c0_i32_51 = arith.constant 0 : i32
    tile.store_block %144[%c0_i32_50, %c0_i32_51], %93 : !tile.view<2xbf16>, [i32, i32], tensor<2x32xbf16>
    return
  }
}
