//! The class of every operator kind that precision policies have been written against, by the name
//! it has there: a policy moves from one system to another without surprises. Backward kinds are
//! rows only. `FusedAttentionBlock` is matrix products here, and compute.

use crate::ops::Class;

/// Kinds by class; what stands nowhere is compute.
const KINDS: &[(Class, &[&str])] = &[
    (
        Class::Compute,
        &[
            "MatMul",
            "FusedMatMulBiasAct",
            "Conv",
            "DotGeneral",
            "DenseSolve",
            "BatchedDenseSolve",
            "Attention",
            "FusedAttentionBlock",
            "FusedTransformerLayer",
            "GroupedMatMul",
            "DequantGroupedMatMul",
            "DequantMoEWeights",
            "LoraMatMul",
            "DequantMatMul",
            "QMatMul",
            "QConv2d",
            "Conv2dBackwardInput",
            "Conv2dBackwardWeight",
            "AttentionBackward",
            "Custom",
            "CustomFn",
            "Scan",
            "ScanBackward",
            "ScanBackwardXs",
            "Fft",
        ],
    ),
    (
        Class::Reduction,
        &[
            "LayerNorm",
            "RmsNorm",
            "GroupNorm",
            "Softmax",
            "FusedResidualLN",
            "FusedResidualRmsNorm",
            "Reduce",
            "Cumsum",
            "Sample",
            "SelectiveScan",
            "GatedDeltaNet",
            "SoftmaxCrossEntropy",
            "SoftmaxCrossEntropyWithLogits",
            "SoftmaxCrossEntropyBackward",
            "LayerNormBackwardInput",
            "LayerNormBackwardGamma",
        ],
    ),
    (
        Class::Elementwise,
        &[
            "Activation",
            "Binary",
            "FusedSwiGLU",
            "Compare",
            "Where",
            "ElementwiseRegion",
            "Quantize",
            "Dequantize",
            "FakeQuantize",
            "FakeQuantizeBackward",
            "FakeQuantizeLSQ",
            "FakeQuantizeLSQBackwardX",
            "FakeQuantizeLSQBackwardScale",
            "ReluBackward",
            "ActivationBackward",
            "ComplexNormSq",
            "ComplexNormSqBackward",
            "Conjugate",
        ],
    ),
    (
        Class::Movement,
        &[
            "Gather",
            "Narrow",
            "Reshape",
            "Transpose",
            "Concat",
            "Expand",
            "Cast",
            "Rope",
            "AxialRope2d",
            "Pool",
            "TopK",
            "ScatterAdd",
            "MaxPool2dBackward",
            "ResizeNearest2x",
            "If",
            "While",
        ],
    ),
    (Class::Boundary, &["Input", "Param", "Constant"]),
];

/// The class of a kind by its name in other systems' policies, `FusedSwiGLU`; compute for a name
/// that no policy knows.
pub fn class_of_kind(name: &str) -> Class {
    KINDS.iter().find(|row| row.1.contains(&name)).map_or(Class::Compute, |row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_class() {
        let mut seen = alloc::collections::BTreeSet::new();
        for name in KINDS.iter().flat_map(|row| row.1) {
            assert!(seen.insert(name), "{name} stands twice");
        }
        assert_eq!(seen.len(), 25 + 16 + 18 + 16 + 3);
    }

    #[test]
    fn an_unknown_kind_is_compute_and_so_is_an_attention_block() {
        assert_eq!(class_of_kind("SomethingNew"), Class::Compute);
        assert_eq!(class_of_kind("FusedAttentionBlock"), Class::Compute);
        assert_eq!(class_of_kind("FakeQuantizeLSQBackwardScale"), Class::Elementwise);
    }

    /// The same classes, told by operators instead of names.
    #[test]
    fn operators_have_the_class_of_the_kind_they_are() {
        use crate::ops::*;
        let same = [
            (MatMul::CLASS, "MatMul"),
            (BatchMatMul::CLASS, "MatMul"),
            (DotGeneral::CLASS, "DotGeneral"),
            (Attention::CLASS, "Attention"),
            (Sdpa::CLASS, "Attention"),
            (GroupedMatMul::CLASS, "GroupedMatMul"),
            (LoraMatMul::CLASS, "LoraMatMul"),
            (Scan::CLASS, "Scan"),
            (LayerNorm::CLASS, "LayerNorm"),
            (RmsNorm::CLASS, "RmsNorm"),
            (Softmax::CLASS, "Softmax"),
            (ResidualLayerNorm::CLASS, "FusedResidualLN"),
            (ResidualRmsNorm::CLASS, "FusedResidualRmsNorm"),
            (Reduce::CLASS, "Reduce"),
            (CumSum::CLASS, "Cumsum"),
            (Sample::CLASS, "Sample"),
            (SelectiveScan::CLASS, "SelectiveScan"),
            (GatedDeltaNet::CLASS, "GatedDeltaNet"),
            (Map::CLASS, "Activation"),
            (Zip::CLASS, "Binary"),
            (Compare::CLASS, "Compare"),
            (Select::CLASS, "Where"),
            (Region::CLASS, "ElementwiseRegion"),
            (Gather::CLASS, "Gather"),
            (Slice::CLASS, "Narrow"),
            (Reshape::CLASS, "Reshape"),
            (Transpose::CLASS, "Transpose"),
            (Concat::CLASS, "Concat"),
            (Expand::CLASS, "Expand"),
            (Cast::CLASS, "Cast"),
            (Rope::CLASS, "Rope"),
            (TopK::CLASS, "TopK"),
            (ScatterAdd::CLASS, "ScatterAdd"),
            (If::CLASS, "If"),
            (While::CLASS, "While"),
            (Constant::CLASS, "Constant"),
        ];
        for (class, kind) in same {
            assert_eq!(class, class_of_kind(kind), "{kind}");
        }
        #[cfg(feature = "vision")]
        for (class, kind) in [
            (Conv::CLASS, "Conv"),
            (GroupNorm::CLASS, "GroupNorm"),
            (Pool::CLASS, "Pool"),
            (AxialRope2d::CLASS, "AxialRope2d"),
            (Interpolate::CLASS, "ResizeNearest2x"),
        ] {
            assert_eq!(class, class_of_kind(kind), "{kind}");
        }
        #[cfg(feature = "linalg")]
        assert_eq!(DenseSolve::CLASS, class_of_kind("DenseSolve"));
        #[cfg(feature = "audio")]
        for (class, kind) in [
            (Fft::CLASS, "Fft"),
            (ComplexNormSq::CLASS, "ComplexNormSq"),
            (Conjugate::CLASS, "Conjugate"),
        ] {
            assert_eq!(class, class_of_kind(kind), "{kind}");
        }
        #[cfg(feature = "quant")]
        for (class, kind) in [
            (Quantize::CLASS, "Quantize"),
            (Dequantize::CLASS, "Dequantize"),
            (FakeQuantize::CLASS, "FakeQuantize"),
            (QMatMul::CLASS, "QMatMul"),
            (QConv2d::CLASS, "QConv2d"),
        ] {
            assert_eq!(class, class_of_kind(kind), "{kind}");
        }
    }
}
