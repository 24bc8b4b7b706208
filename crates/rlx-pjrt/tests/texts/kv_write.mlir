module {
  func.func public @main(%a0: tensor<2x8x4xf16> {tf.aliasing_output = 0 : i32}, %a1: tensor<1x8xf32>, %a2: tensor<16xui32> {tf.aliasing_output = 1 : i32}) -> (tensor<2x8x4xf16>, tensor<16xui32>) {
    %0 = stablehlo.convert %a1 : (tensor<1x8xf32>) -> tensor<1x8xf16>
    %1 = stablehlo.reshape %0 : (tensor<1x8xf16>) -> tensor<1x2x4xf16>
    %2 = stablehlo.slice %a2 [1:2] : (tensor<16xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %a2 [4:5] : (tensor<16xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.constant dense<0> : tensor<ui32>
    %7 = stablehlo.compare EQ, %5, %6 : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %8 = stablehlo.select %7, %3, %6 : tensor<i1>, tensor<ui32>
    %9 = stablehlo.constant dense<1> : tensor<ui32>
    %10 = stablehlo.minimum %8, %9 : tensor<ui32>
    %11 = stablehlo.slice %a2 [0:1] : (tensor<16xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.constant dense<7> : tensor<ui32>
    %14 = stablehlo.minimum %12, %13 : tensor<ui32>
    %15 = stablehlo.convert %14 : (tensor<ui32>) -> tensor<i32>
    %16 = stablehlo.constant dense<0> : tensor<i32>
    %17 = stablehlo.dynamic_slice %a0, %16, %15, %16, sizes = [2, 1, 4] : (tensor<2x8x4xf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x4xf16>
    %18 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<1x2x4xf16>) -> tensor<2x1x4xf16>
    %19 = stablehlo.compare GT, %10, %6 : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %20 = stablehlo.slice %a2 [0:1] : (tensor<16xui32>) -> tensor<1xui32>
    %21 = stablehlo.reshape %20 : (tensor<1xui32>) -> tensor<ui32>
    %22 = stablehlo.constant dense<8> : tensor<ui32>
    %23 = stablehlo.compare LT, %21, %22 : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %24 = stablehlo.and %19, %23 : tensor<i1>
    %25 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<i1>) -> tensor<2x1x4xi1>
    %26 = stablehlo.select %25, %18, %17 : tensor<2x1x4xi1>, tensor<2x1x4xf16>
    %27 = stablehlo.dynamic_update_slice %a0, %26, %16, %15, %16 : (tensor<2x8x4xf16>, tensor<2x1x4xf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x8x4xf16>
    return %27, %a2 : tensor<2x8x4xf16>, tensor<16xui32>
  }
}
