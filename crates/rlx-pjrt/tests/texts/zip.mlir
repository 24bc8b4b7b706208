module {
  func.func public @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>) -> (tensor<2x3xf32>) {
    %0 = stablehlo.broadcast_in_dim %a1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %a0, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}
