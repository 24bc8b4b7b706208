module {
  func.func public @main(%a0: tensor<2x8x4xf16> {tf.aliasing_output = 0 : i32}, %a1: tensor<3x8xf32>, %a2: tensor<16xui32> {tf.aliasing_output = 1 : i32}) -> (tensor<2x8x4xf16>, tensor<16xui32>) {
    %0 = stablehlo.convert %a1 : (tensor<3x8xf32>) -> tensor<3x8xf16>
    %1 = stablehlo.reshape %0 : (tensor<3x8xf16>) -> tensor<3x2x4xf16>
    %2 = stablehlo.slice %a2 [1:2] : (tensor<16xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %a2 [4:5] : (tensor<16xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.constant dense<0> : tensor<ui32>
    %7 = stablehlo.compare EQ, %5, %6 : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %8 = stablehlo.select %7, %3, %6 : tensor<i1>, tensor<ui32>
    %9 = stablehlo.constant dense<3> : tensor<ui32>
    %10 = stablehlo.minimum %8, %9 : tensor<ui32>
    %11 = stablehlo.slice %a2 [0:1] : (tensor<16xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.convert %12 : (tensor<ui32>) -> tensor<i64>
    %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %15 = stablehlo.iota dim = 0 : tensor<8xi64>
    %16 = stablehlo.subtract %15, %14 : tensor<8xi64>
    %17 = stablehlo.constant dense<8> : tensor<8xi64>
    %18 = stablehlo.remainder %16, %17 : tensor<8xi64>
    %19 = stablehlo.constant dense<0> : tensor<8xi64>
    %20 = stablehlo.compare LT, %18, %19 : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %21 = stablehlo.add %18, %17 : tensor<8xi64>
    %22 = stablehlo.select %20, %21, %18 : tensor<8xi1>, tensor<8xi64>
    %23 = stablehlo.convert %10 : (tensor<ui32>) -> tensor<i64>
    %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %25 = stablehlo.compare LT, %22, %24 : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %26 = stablehlo.compare GE, %22, %19 : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %27 = stablehlo.and %25, %26 : tensor<8xi1>
    %28 = stablehlo.constant dense<2> : tensor<8xi64>
    %29 = stablehlo.maximum %22, %19 : tensor<8xi64>
    %30 = stablehlo.minimum %29, %28 : tensor<8xi64>
    %31 = stablehlo.convert %30 : (tensor<8xi64>) -> tensor<8xi32>
    %32 = "stablehlo.gather"(%1, %31) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2, 4>}> : (tensor<3x2x4xf16>, tensor<8xi32>) -> tensor<8x2x4xf16>
    %33 = stablehlo.transpose %32, dims = [1, 0, 2] : (tensor<8x2x4xf16>) -> tensor<2x8x4xf16>
    %34 = stablehlo.broadcast_in_dim %27, dims = [1] : (tensor<8xi1>) -> tensor<2x8x4xi1>
    %35 = stablehlo.select %34, %33, %a0 : tensor<2x8x4xi1>, tensor<2x8x4xf16>
    return %35, %a2 : tensor<2x8x4xf16>, tensor<16xui32>
  }
}
