//! The class of every operator kind that a precision policy may name. The names come from the earlier
//! compiler whose checklist `docs/facts.md` follows, so its policies mean the same here. Kinds of the
//! backward pass are listed although no operator has them. `FusedAttentionBlock` counts as compute,
//! because it is matrix products.

use crate::ops::Class;

/// Kinds by class; a kind that is not listed is compute.
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

/// The class of a kind by its name in a policy, such as `FusedSwiGLU`; compute for an unknown name.
pub fn class_of_kind(name: &str) -> Class {
    KINDS.iter().find(|row| row.1.contains(&name)).map_or(Class::Compute, |row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Op;

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

    /// Operators of every feature, by the kind they are. Without a kind: the class that its own
    /// file says, and why no policy names it.
    const OPERATORS: &[(&str, Result<&str, Class>)] = &[
        ("gather", Ok("Gather")),
        ("rms_norm", Ok("RmsNorm")),
        ("rms_norm_add", Ok("RmsNorm")),
        ("matmul", Ok("MatMul")),
        ("quantize_rows", Err(Class::Movement)), // activations to int8 blocks, a copy in another form
        ("rope_table", Err(Class::Boundary)),    // made while loading
        ("rope", Ok("Rope")),
        ("kv_write", Err(Class::Movement)), // a copy into a state
        ("rope_kv_write", Ok("Rope")),
        ("attention", Ok("Attention")),
        ("attention_split", Ok("Attention")),
        ("rope_attention_split", Ok("Attention")),
        ("attention_join", Err(Class::Reduction)), // weighted sums over splits
        ("batch_matmul", Ok("MatMul")),
        ("dot_general", Ok("DotGeneral")),
        ("lora_matmul", Ok("LoraMatMul")),
        ("grouped_matmul", Ok("GroupedMatMul")),
        ("route", Err(Class::Reduction)), // shares of a row depend on all of its logits
        ("weighted_sum", Ok("Reduce")),
        ("unpack", Err(Class::Movement)), // a copy in another form
        ("all_reduce", Err(Class::Movement)), // what a rank lacks comes from others
        ("all_gather", Err(Class::Movement)),
        ("sdpa", Ok("Attention")),
        ("state_write", Err(Class::Movement)), // copies
        ("state_read", Err(Class::Movement)),
        ("gated_delta_net", Ok("GatedDeltaNet")),
        ("delta_net", Ok("GatedDeltaNet")),
        ("causal_conv1d", Err(Class::Reduction)), // sums over taps
        ("selective_scan", Ok("SelectiveScan")),
        ("if", Ok("If")),
        ("while", Ok("While")),
        ("scan", Ok("Scan")),
        ("map", Ok("Activation")),
        ("zip", Ok("Binary")),
        ("elementwise_region", Ok("ElementwiseRegion")),
        ("reshape", Ok("Reshape")),
        ("take_rows", Ok("Narrow")),
        ("token", Ok("Narrow")),
        ("canvas_ids", Ok("Narrow")),
        ("sample", Ok("Sample")),
        ("predict", Ok("Sample")),
        ("unmask", Ok("Sample")),
        ("ada_norm", Ok("LayerNorm")),
        ("gated_residual", Ok("Binary")),
        ("gated_rms_norm", Ok("RmsNorm")),
        ("layer_norm", Ok("LayerNorm")),
        ("residual_layer_norm", Ok("FusedResidualLN")),
        ("residual_rms_norm", Ok("FusedResidualRmsNorm")),
        ("axial_rope_2d", Ok("AxialRope2d")),
        ("batch_norm_inference", Err(Class::Elementwise)), // its statistics are weights
        ("conv", Ok("Conv")),
        ("conv_transpose", Ok("Conv")),
        ("group_norm", Ok("GroupNorm")),
        ("im2col", Err(Class::Movement)), // copies
        ("interpolate", Ok("ResizeNearest2x")),
        ("layer_norm_2d", Ok("LayerNorm")),
        ("pool", Ok("Pool")),
        ("complex_norm_sq", Ok("ComplexNormSq")),
        ("conjugate", Ok("Conjugate")),
        ("fft", Ok("Fft")),
        ("log_mel", Ok("Fft")), // a transform, then products with the filters
        ("cholesky", Ok("DenseSolve")),
        ("dense_solve", Ok("DenseSolve")),
        ("dequantize", Ok("Dequantize")),
        ("fake_quantize", Ok("FakeQuantize")),
        ("fake_quantize_lsq", Ok("FakeQuantizeLSQ")),
        ("q_conv2d", Ok("QConv2d")),
        ("q_matmul", Ok("QMatMul")),
        ("quantize", Ok("Quantize")),
        ("scaled_dequantize", Ok("Dequantize")),
        ("scaled_matmul", Ok("MatMul")),
        ("scaled_quantize", Ok("Quantize")),
        ("constant", Ok("Constant")),
        ("iota", Err(Class::Boundary)), // a constant by rule
        ("compare", Ok("Compare")),
        ("select", Ok("Where")),
        ("cast", Ok("Cast")),
        ("clamp", Ok("Activation")),
        ("reduce", Ok("Reduce")),
        ("softmax", Ok("Softmax")),
        ("cumsum", Ok("Cumsum")),
        ("argmax", Ok("Reduce")),
        ("argmin", Ok("Reduce")),
        ("sort", Err(Class::Reduction)), // a result depends on the whole axis
        ("top_k", Ok("TopK")),
        ("transpose", Ok("Transpose")),
        ("slice", Ok("Narrow")),
        ("concat", Ok("Concat")),
        ("expand", Ok("Expand")),
        ("pad", Err(Class::Movement)), // copies
        ("roll", Err(Class::Movement)),
        ("reverse", Err(Class::Movement)),
        ("gather_elements", Ok("Gather")),
        ("scatter_add", Ok("ScatterAdd")),
        ("random_uniform", Err(Class::Boundary)), // as a constant: no operand has a type to keep
        ("random_normal", Err(Class::Boundary)),
    ];

    #[test]
    fn every_operator_has_the_class_of_the_kind_it_is() {
        for &(name, class) in Op::CLASSES {
            let row = OPERATORS.iter().find(|row| row.0 == name);
            let (_, kind) = row.unwrap_or_else(|| panic!("{name} is in no row"));
            match kind {
                Ok(kind) => {
                    assert!(KINDS.iter().any(|row| row.1.contains(kind)), "no kind {kind}");
                    assert_eq!(class, class_of_kind(kind), "{name} is {kind}");
                }
                Err(own) => assert_eq!(class, *own, "{name}"),
            }
        }
        #[cfg(all(
            feature = "vision",
            feature = "audio",
            feature = "linalg",
            feature = "quant",
            feature = "parallel"
        ))]
        assert_eq!(OPERATORS.len(), Op::NAMES.len(), "a row of no operator, or one twice");
    }
}
