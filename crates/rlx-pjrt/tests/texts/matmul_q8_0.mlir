module {
  func.func public @main(%a0: tensor<1x32xf32>, %a1: tensor<68xui8>) -> (tensor<1x2xf32>) {
    %0 = stablehlo.reshape %a1 : (tensor<68xui8>) -> tensor<2x34xui8>
    %1 = stablehlo.slice %0 [0:2, 0:2] : (tensor<2x34xui8>) -> tensor<2x2xui8>
    %2 = stablehlo.bitcast_convert %1 : (tensor<2x2xui8>) -> tensor<2xf16>
    %3 = stablehlo.convert %2 : (tensor<2xf16>) -> tensor<2xf32>
    %4 = stablehlo.slice %0 [0:2, 2:34] : (tensor<2x34xui8>) -> tensor<2x32xui8>
    %5 = stablehlo.bitcast_convert %4 : (tensor<2x32xui8>) -> tensor<2x32xi8>
    %6 = stablehlo.convert %5 : (tensor<2x32xi8>) -> tensor<2x32xf32>
    %7 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<2xf32>) -> tensor<2x32xf32>
    %8 = stablehlo.multiply %6, %7 : tensor<2x32xf32>
    %9 = stablehlo.dot_general %a0, %8, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x32xf32>, tensor<2x32xf32>) -> tensor<1x2xf32>
    return %9 : tensor<1x2xf32>
  }
}
