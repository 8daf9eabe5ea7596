// sm_90, 4 warps, 2 stages
module {
  func.func @random_program(%arg0: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg1: !tile.ptr<i8> {tile.divisible = 16 : i64}, %arg2: !tile.ptr<i16>, %arg3: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg4: !tile.ptr<i64>, %arg5: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg6: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg7: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg8: !tile.ptr<f64>, %arg9: !tile.ptr<f8E4M3FN>, %arg10: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg11: !tile.ptr<f8E4M3FNUZ>, %arg12: !tile.ptr<f8E5M2FNUZ>, %arg13: !tile.ptr<f8E4M3B11FNUZ> {tile.divisible = 16 : i64}, %arg14: !tile.ptr<i1> {tile.divisible = 16 : i64}, %arg15: !tile.ptr<i8>, %arg16: !tile.ptr<i16> {tile.divisible = 16 : i64}, %arg17: !tile.ptr<i32> {tile.divisible = 16 : i64}, %arg18: !tile.ptr<i64>, %arg19: !tile.ptr<f16> {tile.divisible = 16 : i64}, %arg20: !tile.ptr<bf16> {tile.divisible = 16 : i64}, %arg21: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg22: !tile.ptr<f64>, %arg23: !tile.ptr<f8E4M3FN>, %arg24: !tile.ptr<f8E5M2> {tile.divisible = 16 : i64}, %arg25: !tile.ptr<f8E4M3FNUZ> {tile.divisible = 16 : i64}, %arg26: !tile.ptr<f8E5M2FNUZ> {tile.divisible = 16 : i64}, %arg27: !tile.ptr<f8E4M3B11FNUZ>, %arg28: i32, %arg29: i32) attributes {tile.kernel} {
    %0 = tile.program_id 0
    %c128_i32 = arith.constant 128 : i32
    %1 = arith.muli %0, %c128_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %2 = arith.addi %1, %c0_i32 : i32
    %3 = tile.addptr %arg18, %2 : !tile.ptr<i64>, i32
    %4 = tile.hint %3 {divisible = array<i64: 16>} : !tile.ptr<i64>
    %5 = tile.program_id 0
    %c12_i32 = arith.constant 12 : i32
    %c16_i32 = arith.constant 16 : i32
    %c1_i32 = arith.constant 1 : i32
    %6 = tile.make_view %arg4, [%c12_i32, %arg28], [%c16_i32, %c1_i32] : !tile.ptr<i64>, [i32, i32], [i32, i32] -> !tile.view<2xi64>
    %7 = tile.load_block %6[%arg29, %5] : !tile.view<2xi64>, [i32, i32] -> tensor<48x2xi64>
    %c64_i32 = arith.constant 64 : i32
    %8 = arith.minsi %5, %c64_i32 : i32
    %c64_i32_0 = arith.constant 64 : i32
    %c0_i32_1 = arith.constant 0 : i32
    %c0_i32_2 = arith.constant 0 : i32
    %9 = tile.addptr %arg6, %c0_i32_2 : !tile.ptr<bf16>, i32
    %c1_i32_3 = arith.constant 1 : i32
    %10 = tile.make_view %9, [%arg29, %c64_i32], [%c64_i32_0, %c1_i32_3] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %11 = tile.load_block %10[%arg28, %c0_i32_1] : !tile.view<2xbf16>, [i32, i32] -> tensor<64x32xbf16>
    %c0_i32_4 = arith.constant 0 : i32
    %12 = tile.addptr %arg6, %c0_i32_4 : !tile.ptr<bf16>, i32
    %c1_i32_5 = arith.constant 1 : i32
    %13 = tile.make_view %12, [%c64_i32, %c64_i32], [%c64_i32_0, %c1_i32_5] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %c0_i32_6 = arith.constant 0 : i32
    %14 = tile.addptr %arg6, %c0_i32_6 : !tile.ptr<bf16>, i32
    %c1_i32_7 = arith.constant 1 : i32
    %15 = tile.make_view %14, [%c64_i32, %c64_i32], [%c1_i32_7, %c64_i32_0] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %cst = arith.constant dense<0.000000e+00> : tensor<64x64xf32>
    %cst_8 = arith.constant dense<0.000000e+00> : tensor<64xf32>
    %cst_9 = arith.constant dense<0.000000e+00> : tensor<64x32xf32>
    %c64_i32_10 = arith.constant 64 : i32
    %16:2 = scf.for %arg30 = %c0_i32_1 to %8 step %c64_i32_10 iter_args(%arg31 = %cst_9, %arg32 = %cst_8) -> (tensor<64x32xf32>, tensor<64xf32>)  : i32 {
      %146 = tile.load_block %13[%arg30, %c0_i32_1] : !tile.view<2xbf16>, [i32, i32] -> tensor<64x32xbf16>
      %147 = tile.permute %146 [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
      %148 = tile.dot %11, %147, %cst : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32>
      %149 = tile.reduce %148 1 : (tensor<64x64xf32>) -> tensor<64xf32> {
      ^bb0(%arg33: f32, %arg34: f32):
        %162 = arith.maximumf %arg33, %arg34 : f32
        tile.yield %162 : f32
      }
      %150 = arith.maximumf %arg32, %149 : tensor<64xf32>
      %151 = tile.expand_dims %150 1 : tensor<64xf32> -> tensor<64x1xf32>
      %152 = tile.broadcast %151 : tensor<64x1xf32> -> tensor<64x64xf32>
      %153 = arith.subf %148, %152 : tensor<64x64xf32>
      %154 = tile.fp_cast %153 {rounding = 1 : i32, saturate} : tensor<64x64xf32> -> tensor<64x64xbf16>
      %155 = arith.cmpf ogt, %150, %arg32 : tensor<64xf32>
      %cst_77 = arith.constant dense<-1.000000e+00> : tensor<64xf32>
      %cst_78 = arith.constant dense<1.000000e+00> : tensor<64xf32>
      %156 = arith.select %155, %cst_77, %cst_78 : tensor<64xi1>, tensor<64xf32>
      %157 = tile.expand_dims %156 1 : tensor<64xf32> -> tensor<64x1xf32>
      %158 = tile.broadcast %157 : tensor<64x1xf32> -> tensor<64x32xf32>
      %159 = arith.mulf %arg31, %158 : tensor<64x32xf32>
      %160 = tile.load_block %15[%arg30, %c0_i32_1] : !tile.view<2xbf16>, [i32, i32] -> tensor<64x32xbf16>
      %161 = tile.dot %154, %160, %159 : tensor<64x64xbf16>, tensor<64x32xbf16>, tensor<64x32xf32>
      scf.yield %161, %150 : tensor<64x32xf32>, tensor<64xf32>
    }
    %c64_i32_11 = arith.constant 64 : i32
    %17 = arith.minsi %5, %c64_i32_11 : i32
    %c72_i32 = arith.constant 72 : i32
    %c0_i32_12 = arith.constant 0 : i32
    %c0_i32_13 = arith.constant 0 : i32
    %18 = tile.addptr %arg6, %c0_i32_13 : !tile.ptr<bf16>, i32
    %c1_i32_14 = arith.constant 1 : i32
    %19 = tile.make_view %18, [%arg29, %c64_i32_11], [%c72_i32, %c1_i32_14] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %20 = tile.load_block %19[%arg29, %c0_i32_12] : !tile.view<2xbf16>, [i32, i32] -> tensor<64x48xbf16>
    %c0_i32_15 = arith.constant 0 : i32
    %21 = tile.addptr %arg6, %c0_i32_15 : !tile.ptr<bf16>, i32
    %c1_i32_16 = arith.constant 1 : i32
    %22 = tile.make_view %21, [%c64_i32_11, %c64_i32_11], [%c72_i32, %c1_i32_16] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %c0_i32_17 = arith.constant 0 : i32
    %23 = tile.addptr %arg6, %c0_i32_17 : !tile.ptr<bf16>, i32
    %c1_i32_18 = arith.constant 1 : i32
    %24 = tile.make_view %23, [%c64_i32_11, %c64_i32_11], [%c1_i32_18, %c72_i32] : !tile.ptr<bf16>, [i32, i32], [i32, i32] -> !tile.view<2xbf16>
    %cst_19 = arith.constant dense<0.000000e+00> : tensor<64x48xf32>
    %cst_20 = arith.constant dense<0.000000e+00> : tensor<64xf32>
    %cst_21 = arith.constant dense<0.000000e+00> : tensor<64x48xf32>
    %c48_i32 = arith.constant 48 : i32
    %25:2 = scf.for %arg30 = %c0_i32_12 to %17 step %c48_i32 iter_args(%arg31 = %cst_21, %arg32 = %cst_20) -> (tensor<64x48xf32>, tensor<64xf32>)  : i32 {
      %146 = tile.load_block %22[%arg30, %c0_i32_12] : !tile.view<2xbf16>, [i32, i32] -> tensor<48x48xbf16>
      %147 = tile.permute %146 [1, 0] : tensor<48x48xbf16> -> tensor<48x48xbf16>
      %148 = tile.dot %20, %147, %cst_19 : tensor<64x48xbf16>, tensor<48x48xbf16>, tensor<64x48xf32>
      %149 = tile.reduce %148 1 : (tensor<64x48xf32>) -> tensor<64xf32> {
      ^bb0(%arg33: f32, %arg34: f32):
        %162 = arith.maximumf %arg33, %arg34 : f32
        tile.yield %162 : f32
      }
      %150 = arith.maximumf %arg32, %149 : tensor<64xf32>
      %151 = tile.expand_dims %150 1 : tensor<64xf32> -> tensor<64x1xf32>
      %152 = tile.broadcast %151 : tensor<64x1xf32> -> tensor<64x48xf32>
      %153 = arith.subf %148, %152 : tensor<64x48xf32>
      %154 = arith.truncf %153 : tensor<64x48xf32> to tensor<64x48xbf16>
      %155 = arith.cmpf ogt, %150, %arg32 : tensor<64xf32>
      %cst_77 = arith.constant dense<-1.000000e+00> : tensor<64xf32>
      %cst_78 = arith.constant dense<1.000000e+00> : tensor<64xf32>
      %156 = arith.select %155, %cst_77, %cst_78 : tensor<64xi1>, tensor<64xf32>
      %157 = tile.expand_dims %156 1 : tensor<64xf32> -> tensor<64x1xf32>
      %158 = tile.broadcast %157 : tensor<64x1xf32> -> tensor<64x48xf32>
      %159 = arith.mulf %arg31, %158 : tensor<64x48xf32>
      %160 = tile.load_block %24[%arg30, %c0_i32_12] : !tile.view<2xbf16>, [i32, i32] -> tensor<48x48xbf16>
      %161 = tile.dot %154, %160, %159 : tensor<64x48xbf16>, tensor<48x48xbf16>, tensor<64x48xf32>
      scf.yield %161, %150 : tensor<64x48xf32>, tensor<64xf32>
    } {cta.warp_specialize = true}
    %26 = tile.arange 4 : tensor<80xi32>
    %27 = arith.extui %26 : tensor<80xi32> to tensor<80xi64>
    %28 = tile.splat %5 : i32 -> tensor<80xi32>
    %cst_22 = arith.constant dense<0> : tensor<80xi32>
    %29 = tile.arange 0 : tensor<80xi32>
    %cst_23 = arith.constant dense<1> : tensor<80xi32>
    %30 = arith.muli %29, %cst_23 : tensor<80xi32>
    %31 = arith.addi %cst_22, %30 : tensor<80xi32>
    %32 = arith.addi %31, %28 : tensor<80xi32>
    %cst_24 = arith.constant dense<0> : tensor<80xi32>
    %33 = arith.cmpi sge, %32, %cst_24 : tensor<80xi32>
    %cst_25 = arith.constant dense<128> : tensor<80xi32>
    %34 = arith.cmpi slt, %32, %cst_25 : tensor<80xi32>
    %35 = arith.andi %33, %34 : tensor<80xi1>
    %36 = tile.splat %4 : !tile.ptr<i64> -> tensor<80x!tile.ptr<i64>>
    %37 = tile.addptr %36, %32 : tensor<80x!tile.ptr<i64>>, tensor<80xi32>
    tile.store %37, %27 mask %35 {cache = 2 : i32, eviction = 2 : i32} : tensor<80x!tile.ptr<i64>>, tensor<80xi64> mask tensor<80xi1>
    %c64_i32_26 = arith.constant 64 : i32
    %38 = arith.minsi %arg29, %c64_i32_26 : i32
    %c64_i32_27 = arith.constant 64 : i32
    %c0_i32_28 = arith.constant 0 : i32
    %39 = tile.addptr %arg5, %c0_i32_28 : !tile.ptr<f16>, i32
    %c1_i32_29 = arith.constant 1 : i32
    %40 = tile.make_view %39, [%arg29, %c64_i32_26], [%c64_i32_27, %c1_i32_29] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c0_i32_30 = arith.constant 0 : i32
    %41 = tile.addptr %arg5, %c0_i32_30 : !tile.ptr<f16>, i32
    %c1_i32_31 = arith.constant 1 : i32
    %42 = tile.make_view %41, [%c64_i32_26, %arg29], [%c1_i32_31, %c64_i32_27] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c0_i32_32 = arith.constant 0 : i32
    %c0_i32_33 = arith.constant 0 : i32
    %cst_34 = arith.constant dense<0.000000e+00> : tensor<64x8xf32>
    %c0_i32_35 = arith.constant 0 : i32
    %c16_i32_36 = arith.constant 16 : i32
    %cst_37 = arith.constant dense<0.000000e+00> : tensor<64x16xf32>
    %43:2 = scf.for %arg30 = %c0_i32_35 to %38 step %c16_i32_36 iter_args(%arg31 = %cst_34, %arg32 = %cst_37) -> (tensor<64x8xf32>, tensor<64x16xf32>)  : i32 {
      %146 = arith.divsi %arg30, %c16_i32_36 : i32
      %147 = arith.addi %146, %arg29 : i32
      %c1_i32_77 = arith.constant 1 : i32
      %148 = arith.andi %147, %c1_i32_77 : i32
      %c0_i32_78 = arith.constant 0 : i32
      %149 = arith.cmpi ne, %148, %c0_i32_78 : i32
      %150:2 = scf.if %149 -> (tensor<64x8xf32>, tensor<64x16xf32>) {
        %151 = tile.load_block %40[%c0_i32_32, %arg30] : !tile.view<2xf16>, [i32, i32] -> tensor<64x16xf16>
        %152 = tile.load_block %42[%arg30, %c0_i32_33] : !tile.view<2xf16>, [i32, i32] -> tensor<16x8xf16>
        %153 = tile.dot %151, %152, %arg31 : tensor<64x16xf16>, tensor<16x8xf16>, tensor<64x8xf32>
        %154 = arith.extf %151 : tensor<64x16xf16> to tensor<64x16xf32>
        %155 = arith.addf %arg32, %154 : tensor<64x16xf32>
        scf.yield %153, %155 : tensor<64x8xf32>, tensor<64x16xf32>
      } else {
        scf.yield %arg31, %arg32 : tensor<64x8xf32>, tensor<64x16xf32>
      }
      scf.yield %150#0, %150#1 : tensor<64x8xf32>, tensor<64x16xf32>
    } {cta.warp_specialize = true}
    %44 = tile.fp_cast %43#0 : tensor<64x8xf32> -> tensor<64x8xf16>
    %45 = tile.program_id 0
    %c512_i32 = arith.constant 512 : i32
    %46 = arith.muli %45, %c512_i32 : i32
    %c0_i32_38 = arith.constant 0 : i32
    %47 = arith.addi %46, %c0_i32_38 : i32
    %48 = tile.splat %arg19 : !tile.ptr<f16> -> tensor<64x8x!tile.ptr<f16>>
    %cst_39 = arith.constant dense<0> : tensor<64x8xi32>
    %49 = tile.arange 0 : tensor<64xi32>
    %50 = tile.expand_dims %49 1 : tensor<64xi32> -> tensor<64x1xi32>
    %51 = tile.broadcast %50 : tensor<64x1xi32> -> tensor<64x8xi32>
    %cst_40 = arith.constant dense<8> : tensor<64x8xi32>
    %52 = arith.muli %51, %cst_40 : tensor<64x8xi32>
    %53 = arith.addi %cst_39, %52 : tensor<64x8xi32>
    %54 = tile.arange 0 : tensor<8xi32>
    %55 = tile.expand_dims %54 0 : tensor<8xi32> -> tensor<1x8xi32>
    %56 = tile.broadcast %55 : tensor<1x8xi32> -> tensor<64x8xi32>
    %cst_41 = arith.constant dense<1> : tensor<64x8xi32>
    %57 = arith.muli %56, %cst_41 : tensor<64x8xi32>
    %58 = arith.addi %53, %57 : tensor<64x8xi32>
    %59 = tile.splat %47 : i32 -> tensor<64x8xi32>
    %60 = arith.addi %58, %59 : tensor<64x8xi32>
    %61 = tile.addptr %48, %60 : tensor<64x8x!tile.ptr<f16>>, tensor<64x8xi32>
    %cst_42 = arith.constant dense<0> : tensor<64x8xi32>
    %62 = tile.arange 0 : tensor<64xi32>
    %63 = tile.expand_dims %62 1 : tensor<64xi32> -> tensor<64x1xi32>
    %64 = tile.broadcast %63 : tensor<64x1xi32> -> tensor<64x8xi32>
    %cst_43 = arith.constant dense<8> : tensor<64x8xi32>
    %65 = arith.muli %64, %cst_43 : tensor<64x8xi32>
    %66 = arith.addi %cst_42, %65 : tensor<64x8xi32>
    %67 = tile.arange 0 : tensor<8xi32>
    %68 = tile.expand_dims %67 0 : tensor<8xi32> -> tensor<1x8xi32>
    %69 = tile.broadcast %68 : tensor<1x8xi32> -> tensor<64x8xi32>
    %cst_44 = arith.constant dense<1> : tensor<64x8xi32>
    %70 = arith.muli %69, %cst_44 : tensor<64x8xi32>
    %71 = arith.addi %66, %70 : tensor<64x8xi32>
    %cst_45 = arith.constant dense<4> : tensor<64x8xi32>
    %72 = arith.addi %71, %cst_45 : tensor<64x8xi32>
    %73 = tile.splat %arg4 : !tile.ptr<i64> -> tensor<64x8x!tile.ptr<i64>>
    %74 = tile.addptr %73, %72 : tensor<64x8x!tile.ptr<i64>>, tensor<64x8xi32>
    %75 = tile.load %74 : tensor<64x8x!tile.ptr<i64>> -> tensor<64x8xi64>
    %c3_i32 = arith.constant 3 : i32
    %c16_i32_46 = arith.constant 16 : i32
    %c1_i32_47 = arith.constant 1 : i32
    %c1_i32_48 = arith.constant 1 : i32
    %c30_i32 = arith.constant 30 : i32
    %76 = tile.make_view %arg4, [%c3_i32, %c1_i32_47], [%c16_i32_46, %c1_i32_48] : !tile.ptr<i64>, [i32, i32], [i32, i32] -> !tile.view<2xi64>
    %77 = tile.load_block %76[%arg29, %c30_i32] padding 25 : i64 : !tile.view<2xi64>, [i32, i32] -> tensor<64x8xi64>
    %78 = arith.cmpi ult, %75, %77 : tensor<64x8xi64>
    tile.store %61, %44 mask %78 : tensor<64x8x!tile.ptr<f16>>, tensor<64x8xf16> mask tensor<64x8xi1>
    %c64_i32_49 = arith.constant 64 : i32
    %79 = arith.minsi %arg29, %c64_i32_49 : i32
    %c72_i32_50 = arith.constant 72 : i32
    %c0_i32_51 = arith.constant 0 : i32
    %c0_i32_52 = arith.constant 0 : i32
    %80 = tile.addptr %arg5, %c0_i32_52 : !tile.ptr<f16>, i32
    %c1_i32_53 = arith.constant 1 : i32
    %81 = tile.make_view %80, [%arg29, %c64_i32_49], [%c72_i32_50, %c1_i32_53] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c-3_i32 = arith.constant -3 : i32
    %82 = tile.load_block %81[%c-3_i32, %c0_i32_51] : !tile.view<2xf16>, [i32, i32] -> tensor<64x64xf16>
    %c0_i32_54 = arith.constant 0 : i32
    %83 = tile.addptr %arg5, %c0_i32_54 : !tile.ptr<f16>, i32
    %c1_i32_55 = arith.constant 1 : i32
    %84 = tile.make_view %83, [%79, %c64_i32_49], [%c72_i32_50, %c1_i32_55] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %c3584_i32 = arith.constant 3584 : i32
    %85 = tile.addptr %arg5, %c3584_i32 : !tile.ptr<f16>, i32
    %c1_i32_56 = arith.constant 1 : i32
    %86 = tile.make_view %85, [%79, %c64_i32_49], [%c1_i32_56, %c72_i32_50] : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
    %87 = tile.load_block %81[%arg28, %c0_i32_51] : !tile.view<2xf16>, [i32, i32] -> tensor<64x16xf16>
    %cst_57 = arith.constant dense<0.000000e+00> : tensor<64x48xf32>
    %cst_58 = arith.constant dense<0.000000e+00> : tensor<64xf32>
    %cst_59 = arith.constant dense<0.000000e+00> : tensor<64x64xf32>
    %c48_i32_60 = arith.constant 48 : i32
    %88:2 = scf.for %arg30 = %c0_i32_51 to %79 step %c48_i32_60 iter_args(%arg31 = %cst_59, %arg32 = %cst_58) -> (tensor<64x64xf32>, tensor<64xf32>)  : i32 {
      %146 = tile.load_block %84[%arg30, %c0_i32_51] : !tile.view<2xf16>, [i32, i32] -> tensor<48x64xf16>
      %147 = tile.permute %146 [1, 0] : tensor<48x64xf16> -> tensor<64x48xf16>
      %148 = tile.dot %82, %147, %cst_57 : tensor<64x64xf16>, tensor<64x48xf16>, tensor<64x48xf32>
      %c16_i32_77 = arith.constant 16 : i32
      %149 = tile.load_block %84[%arg30, %c16_i32_77] : !tile.view<2xf16>, [i32, i32] -> tensor<48x16xf16>
      %150 = tile.permute %149 [1, 0] : tensor<48x16xf16> -> tensor<16x48xf16>
      %151 = tile.dot %87, %150, %148 : tensor<64x16xf16>, tensor<16x48xf16>, tensor<64x48xf32>
      %152 = tile.reduce %151 1 : (tensor<64x48xf32>) -> tensor<64xf32> {
      ^bb0(%arg33: f32, %arg34: f32):
        %161 = arith.maximumf %arg33, %arg34 : f32
        tile.yield %161 : f32
      }
      %153 = arith.maximumf %arg32, %152 : tensor<64xf32>
      %154 = tile.expand_dims %153 1 : tensor<64xf32> -> tensor<64x1xf32>
      %155 = tile.broadcast %154 : tensor<64x1xf32> -> tensor<64x48xf32>
      %156 = arith.subf %151, %155 : tensor<64x48xf32>
      %157 = tile.fp_cast %156 {rounding = 1 : i32} : tensor<64x48xf32> -> tensor<64x48xf16>
      %158 = arith.mulf %157, %157 : tensor<64x48xf16>
      %159 = tile.load_block %86[%arg30, %c0_i32_51] : !tile.view<2xf16>, [i32, i32] -> tensor<48x64xf16>
      %160 = tile.dot %158, %159, %arg31 : tensor<64x48xf16>, tensor<48x64xf16>, tensor<64x64xf32>
      scf.yield %160, %153 : tensor<64x64xf32>, tensor<64xf32>
    } {cta.warp_specialize = false}
    %c1_i32_61 = arith.constant 1 : i32
    %c64_i32_62 = arith.constant 64 : i32
    %c64_i32_63 = arith.constant 64 : i32
    %c56_i32 = arith.constant 56 : i32
    %89 = tile.make_view %arg21, [%c64_i32_63, %c56_i32], [%c64_i32_62, %c1_i32_61] : !tile.ptr<f32>, [i32, i32], [i32, i32] -> !tile.view<2xf32>
    %90 = tile.program_id 0
    %c64_i32_64 = arith.constant 64 : i32
    %91 = arith.muli %90, %c64_i32_64 : i32
    %c0_i32_65 = arith.constant 0 : i32
    tile.store_block %89[%91, %c0_i32_65], %88#0 : !tile.view<2xf32>, [i32, i32], tensor<64x64xf32>
    %92 = tile.program_id 0
    %c1024_i32 = arith.constant 1024 : i32
    %93 = arith.muli %92, %c1024_i32 : i32
    %c4096_i32 = arith.constant 4096 : i32
    %94 = arith.addi %93, %c4096_i32 : i32
    %95 = tile.splat %arg21 : !tile.ptr<f32> -> tensor<64x16x!tile.ptr<f32>>
    %cst_66 = arith.constant dense<0> : tensor<64x16xi32>
    %96 = tile.arange 0 : tensor<64xi32>
    %97 = tile.expand_dims %96 1 : tensor<64xi32> -> tensor<64x1xi32>
    %98 = tile.broadcast %97 : tensor<64x1xi32> -> tensor<64x16xi32>
    %cst_67 = arith.constant dense<16> : tensor<64x16xi32>
    %99 = arith.muli %98, %cst_67 : tensor<64x16xi32>
    %100 = arith.addi %cst_66, %99 : tensor<64x16xi32>
    %101 = tile.arange 0 : tensor<16xi32>
    %102 = tile.expand_dims %101 0 : tensor<16xi32> -> tensor<1x16xi32>
    %103 = tile.broadcast %102 : tensor<1x16xi32> -> tensor<64x16xi32>
    %cst_68 = arith.constant dense<1> : tensor<64x16xi32>
    %104 = arith.muli %103, %cst_68 : tensor<64x16xi32>
    %105 = arith.addi %100, %104 : tensor<64x16xi32>
    %106 = tile.splat %94 : i32 -> tensor<64x16xi32>
    %107 = arith.addi %105, %106 : tensor<64x16xi32>
    %108 = tile.addptr %95, %107 : tensor<64x16x!tile.ptr<f32>>, tensor<64x16xi32>
    tile.store %108, %43#1 : tensor<64x16x!tile.ptr<f32>>, tensor<64x16xf32>
    %109 = tile.program_id 0
    %c3072_i32 = arith.constant 3072 : i32
    %110 = arith.muli %109, %c3072_i32 : i32
    %c5120_i32 = arith.constant 5120 : i32
    %111 = arith.addi %110, %c5120_i32 : i32
    %112 = tile.splat %arg21 : !tile.ptr<f32> -> tensor<64x48x!tile.ptr<f32>>
    %cst_69 = arith.constant dense<0> : tensor<64x48xi32>
    %113 = tile.arange 0 : tensor<64xi32>
    %114 = tile.expand_dims %113 1 : tensor<64xi32> -> tensor<64x1xi32>
    %115 = tile.broadcast %114 : tensor<64x1xi32> -> tensor<64x48xi32>
    %cst_70 = arith.constant dense<48> : tensor<64x48xi32>
    %116 = arith.muli %115, %cst_70 : tensor<64x48xi32>
    %117 = arith.addi %cst_69, %116 : tensor<64x48xi32>
    %118 = tile.arange 0 : tensor<48xi32>
    %119 = tile.expand_dims %118 0 : tensor<48xi32> -> tensor<1x48xi32>
    %120 = tile.broadcast %119 : tensor<1x48xi32> -> tensor<64x48xi32>
    %cst_71 = arith.constant dense<1> : tensor<64x48xi32>
    %121 = arith.muli %120, %cst_71 : tensor<64x48xi32>
    %122 = arith.addi %117, %121 : tensor<64x48xi32>
    %123 = tile.splat %111 : i32 -> tensor<64x48xi32>
    %124 = arith.addi %122, %123 : tensor<64x48xi32>
    %125 = tile.addptr %112, %124 : tensor<64x48x!tile.ptr<f32>>, tensor<64x48xi32>
    %126 = tile.fp_cast %25#0 : tensor<64x48xf32> -> tensor<64x48xf8E5M2>
    %127 = tile.fp_cast %25#0 {saturate} : tensor<64x48xf32> -> tensor<64x48xf8E5M2>
    %128 = arith.extf %126 : tensor<64x48xf8E5M2> to tensor<64x48xf32>
    %129 = arith.extf %127 : tensor<64x48xf8E5M2> to tensor<64x48xf32>
    %130 = arith.cmpf ole, %128, %129 : tensor<64x48xf32>
    tile.store %125, %25#0 mask %130 : tensor<64x48x!tile.ptr<f32>>, tensor<64x48xf32> mask tensor<64x48xi1>
    %131 = tile.program_id 0
    %c64_i32_72 = arith.constant 64 : i32
    %132 = arith.muli %131, %c64_i32_72 : i32
    %c8192_i32 = arith.constant 8192 : i32
    %133 = arith.addi %132, %c8192_i32 : i32
    %134 = tile.splat %arg21 : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
    %cst_73 = arith.constant dense<0> : tensor<64xi32>
    %135 = tile.arange 0 : tensor<64xi32>
    %cst_74 = arith.constant dense<1> : tensor<64xi32>
    %136 = arith.muli %135, %cst_74 : tensor<64xi32>
    %137 = arith.addi %cst_73, %136 : tensor<64xi32>
    %138 = tile.splat %133 : i32 -> tensor<64xi32>
    %139 = arith.addi %137, %138 : tensor<64xi32>
    %140 = tile.addptr %134, %139 : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    %141 = tile.splat %arg28 : i32 -> tensor<64xi32>
    %cst_75 = arith.constant dense<0x49800000> : tensor<64xf32>
    %142 = tile.minimum_number %16#1, %cst_75 : tensor<64xf32>
    %cst_76 = arith.constant dense<0xC9800000> : tensor<64xf32>
    %143 = tile.maximum_number %142, %cst_76 : tensor<64xf32>
    %144 = arith.fptosi %143 : tensor<64xf32> to tensor<64xi32>
    %145 = arith.cmpi ule, %141, %144 : tensor<64xi32>
    tile.store %140, %16#1 mask %145 : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
    return
  }
}