//! Every operator of these groups: its text, and its decomposition where no record has it.

use crate::operators::support::{Value, agrees, execute, near};
use rlx_core::ir::mir::{Emitter, Graph, ParamKind};
use rlx_core::ops::*;
use rlx_core::reference::View;
use rlx_core::types::{DType, Scalar, SmallFloat};

const I8: DType = DType::Scalar(Scalar::I8);
const C64: DType = DType::Scalar(Scalar::C64);

fn window() -> Window {
    Window::new(2).stride(&[2, 1]).pad(&[1, 0], &[0, 3]).dilation(&[1, 2])
}

fn requantize(bias: bool) -> Requantize {
    Requantize { x_zero: -3, w_zero: 4, out_zero: -128, multiplier: 0.015, bias }
}

fn scaling(format: SmallFloat, layout: ScaleLayout) -> Scaling {
    Scaling { format, layout }
}

const BLOCKS: ScaleLayout = ScaleLayout::Block { rows: 2, columns: 24, round: true };

/// One or more of each, with operands that fit where it is to run.
fn all() -> Vec<(Op, Vec<Value>)> {
    let f = |dims: &[u64], seed| Value::noise(DType::F32, dims, seed);
    let positive = |dims: &[u64], seed| {
        let x: Vec<f64> = f(dims, seed).f64s().iter().map(|v| v.abs() + 0.1).collect();
        Value::new(DType::F32, dims, &x)
    };
    let i8s = |dims: &[u64], seed| {
        let x: Vec<f64> = f(dims, seed).f64s().iter().map(|v| (v * 128.0).floor()).collect();
        Value::new(I8, dims, &x)
    };
    let codes = |s: Scaling, dims: &[u64], seed| {
        execute(&ScaledQuantize { scaling: s }.into(), &[f(dims, seed)])
    };
    let image = || f(&[2, 4, 6, 5], 1);
    let rope = AxialRope2d {
        end_x: 3,
        end_y: 2,
        head_dim: 8,
        heads: 2,
        theta: 1e4,
        repeat: 2,
        scale: 0.5,
    };
    let mut list: Vec<(Op, Vec<Value>)> = vec![
        (LayerNorm { eps: 1e-5, bias: true }.into(), vec![f(&[3, 8], 1), f(&[8], 2), f(&[8], 3)]),
        (LayerNorm { eps: 1e-12, bias: false }.into(), vec![f(&[8], 1), f(&[8], 2)]),
        (
            ResidualLayerNorm { eps: 1e-5, bias: true, shift: true }.into(),
            vec![f(&[3, 8], 1), f(&[3, 8], 2), f(&[8], 3), f(&[8], 4), f(&[8], 5)],
        ),
        (
            ResidualLayerNorm { eps: 1e-5, bias: false, shift: false }.into(),
            vec![f(&[3, 8], 1), f(&[3, 8], 2), f(&[8], 4)],
        ),
        (
            ResidualRmsNorm { eps: 1e-6, bias: true }.into(),
            vec![f(&[2, 3, 8], 1), f(&[2, 3, 8], 2), f(&[8], 3), f(&[8], 4)],
        ),
        (RmsNormAdd { eps: 1e-6 }.into(), vec![f(&[2, 3, 8], 1), f(&[8], 2), f(&[2, 3, 8], 3)]),
        (
            AdaNorm { norm: NormKind::RmsNorm, eps: 1e-6 }.into(),
            vec![f(&[2, 3, 8], 1), f(&[2, 1, 8], 2), f(&[8], 3)],
        ),
        (GatedResidual.into(), vec![f(&[2, 3, 8], 1), f(&[2, 3, 8], 2), f(&[2, 1, 1], 3)]),
        (LayerNorm2d { eps: 1e-6 }.into(), vec![image(), f(&[4], 2), f(&[4], 3)]),
        (GroupNorm { groups: 2, eps: 1e-5 }.into(), vec![image(), f(&[4], 2), f(&[4], 3)]),
        (
            BatchNormInference { axis: 1, eps: 1e-5 }.into(),
            vec![image(), f(&[4], 2), f(&[4], 3), f(&[4], 4), positive(&[4], 5)],
        ),
        (
            Conv { window: window(), groups: 2, bias: true }.into(),
            vec![image(), f(&[6, 2, 3, 2], 2), f(&[6], 3)],
        ),
        (
            ConvTranspose { window: window(), extra: vec![1, 1], groups: 2, bias: true }.into(),
            vec![image(), f(&[4, 3, 3, 2], 2), f(&[6], 3)],
        ),
        (Im2Col { kernel: vec![3, 2], window: window() }.into(), vec![image()]),
        // Windows that tile the image.
        (
            Im2Col { kernel: vec![3, 5], window: Window::new(2).stride(&[3, 5]) }.into(),
            vec![image()],
        ),
        (rope.clone().into(), vec![f(&[2, 12, 16], 1)]),
        (AxialRope2d { scale: 1.0, ..rope }.into(), vec![f(&[15, 16], 1)]),
        (Fft { inverse: true, norm: FftNorm::Ortho }.into(), vec![f(&[10], 1)]),
        (ComplexNormSq.into(), vec![f(&[3, 8], 1)]),
        (Conjugate.into(), vec![f(&[3, 8], 1)]),
        (
            LogMel { hop: 3, ..LogMel::whisper() }.into(),
            vec![f(&[40], 1), positive(&[10], 2), positive(&[3, 6], 3)],
        ),
        (
            Quantize { to: DType::Scalar(Scalar::U8), axis: Some(1) }.into(),
            vec![
                f(&[2, 3, 4], 1),
                Value::f32s(&[3], &[0.0625, 0.25, 0.03125]),
                Value::new(DType::Scalar(Scalar::U8), &[3], &[0.0, 128.0, 255.0]),
            ],
        ),
        (Dequantize { axis: Some(0) }.into(), vec![i8s(&[3, 4], 1), f(&[3], 2), i8s(&[3], 3)]),
        (QMatMul { requantize: requantize(true) }.into(), {
            vec![i8s(&[2, 3, 16], 1), i8s(&[5, 16], 2), Value::new(DType::I32, &[5], &[90.0; 5])]
        }),
        (
            QConv2d { window: window(), groups: 2, requantize: requantize(false) }.into(),
            vec![i8s(&[1, 4, 6, 5], 1), i8s(&[2, 2, 3, 2], 2)],
        ),
        (
            FakeQuantizeLsq { bits: 4, axis: Some(1) }.into(),
            vec![f(&[4, 3], 1), { Value::f32s(&[3], &[0.125, 0.0, 0.0625]) }],
        ),
    ];
    for kind in [PoolKind::Max, PoolKind::Average] {
        for count_padding in [false, true] {
            let op = Pool { kind, kernel: vec![3, 2], window: window(), count_padding };
            list.push((op.into(), vec![image()]));
        }
    }
    for mode in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
        let size = vec![4, 9];
        let op = Interpolate { size, mode, align_corners: false, antialias: false };
        list.push((op.into(), vec![image()]));
    }
    let common = [
        (8, None, FakeScale::PerBatch, StraightThrough::Identity),
        (4, Some(0), FakeScale::PerBatch, StraightThrough::ClippedIdentity),
        (2, None, FakeScale::Fixed, StraightThrough::Tanh),
        (4, Some(1), FakeScale::Fixed, StraightThrough::HardTanh),
        (8, Some(1), FakeScale::Ema, StraightThrough::Identity),
    ];
    for (bits, axis, scale, gradient) in common {
        let mut operands = vec![f(&[4, 3], 9)];
        if scale != FakeScale::PerBatch {
            let x = [0.25, 0.0, 0.125];
            operands.push(if axis.is_some() {
                Value::f32s(&[3], &x)
            } else {
                Value::f32s(&[], &x[..1])
            });
        }
        list.push((FakeQuantize { bits, axis, scale, gradient }.into(), operands));
    }
    for format in SmallFloat::all() {
        for layout in [ScaleLayout::Tensor, BLOCKS, ScaleLayout::Mx, ScaleLayout::Nvfp4] {
            if layout == ScaleLayout::Nvfp4 && format != SmallFloat::F4E2M1 {
                continue;
            }
            let s = scaling(format, layout);
            list.push((ScaledDequantize { scaling: s }.into(), codes(s, &[2, 5, 64], 3)));
        }
    }
    let (x, w) =
        (scaling(SmallFloat::F8E5M2, BLOCKS), scaling(SmallFloat::F4E2M1, ScaleLayout::Nvfp4));
    let mut operands = codes(x, &[3, 32], 1);
    operands.extend(codes(w, &[4, 32], 2));
    operands.push(f(&[4], 3));
    list.push((ScaledMatMul { x, w, bias: true }.into(), operands));
    list
}

/// Those that do not come apart, with operands.
fn primitives() -> Vec<(Op, Vec<Value>)> {
    let mut list: Vec<(Op, Vec<Value>)> = vec![
        (Fft { inverse: false, norm: FftNorm::Backward }.into(), vec![Value::noise(C64, &[6], 1)]),
        (ComplexNormSq.into(), vec![Value::noise(C64, &[6], 1)]),
        (Conjugate.into(), vec![Value::noise(C64, &[6], 1)]),
        (Cholesky.into(), vec![Value::f32s(&[2, 2], &[2.0, 1.0, 1.0, 2.0])]),
        (
            DenseSolve.into(),
            vec![Value::f32s(&[2, 2], &[2.0, 1.0, 1.0, 2.0]), Value::f32s(&[2], &[1.0, 5.0])],
        ),
    ];
    for layout in [ScaleLayout::Tensor, BLOCKS, ScaleLayout::Mx, ScaleLayout::Nvfp4] {
        let op = ScaledQuantize { scaling: scaling(SmallFloat::F4E2M1, layout) };
        list.push((op.into(), vec![Value::noise(DType::F32, &[3, 64], 2)]));
    }
    list
}

#[test]
fn every_operator_reads_back_from_its_text() {
    for (op, operands) in all().into_iter().chain(primitives()) {
        let again = Op::from_text(op.name(), &op.attrs());
        assert_eq!(again.as_ref(), Ok(&op), "{}{}", op.name(), op.attrs());
        // Through a whole graph too, where text is what it is.
        let mut g = Graph::new("text");
        let params: Vec<_> = operands
            .iter()
            .enumerate()
            .map(|(i, v)| g.param(ParamKind::Input, &format!("x{i}"), v.ty.clone()))
            .collect();
        let results = g.push(op, &params, "node").unwrap();
        g.output("y", results[0]);
        assert_eq!(rlx_core::ir::parse::parse(&g.to_string()).as_ref(), Ok(&g), "{g}");
        let mut attrs = g.nodes[0].op.attrs();
        attrs = attrs.int("unheard_of", 1);
        let e = Op::from_text(g.nodes[0].op.name(), &attrs).unwrap_err();
        assert!(e.what.contains("unheard_of"), "{e}");
    }
}

#[test]
fn every_structured_operator_is_its_primitives() {
    for (op, operands) in all() {
        assert!(agrees(&op, &operands, 2e-6), "{}{} does not come apart", op.name(), op.attrs());
    }
    for (op, operands) in primitives() {
        assert!(!agrees(&op, &operands, 0.0), "{}{} comes apart", op.name(), op.attrs());
        execute(&op, &operands);
    }
}

#[test]
fn half_floats_come_apart_as_well() {
    for (op, operands) in all() {
        let half = |v: &Value| match v.ty.dtype {
            DType::F32 => {
                let dims = v.ty.shape.static_dims().unwrap();
                Value::new(DType::F16, &dims, &v.f64s())
            }
            _ => v.clone(),
        };
        let operands: Vec<Value> = operands.iter().map(half).collect();
        let types: Vec<_> = operands.iter().map(|v| &v.ty).collect();
        // Scales of small floats and their results are f32.
        if op.infer(&types).is_err() {
            assert!(op.name().starts_with("scaled_"), "{}", op.name());
            continue;
        }
        assert!(agrees(&op, &operands, 4e-3), "{}{}", op.name(), op.attrs());
    }
}

#[test]
fn a_decomposition_prints_and_reads_back() {
    for (op, operands) in all() {
        let types: Vec<_> = operands.iter().map(|v| v.ty.clone()).collect();
        let g = crate::operators::support::apart(&op, &types).unwrap();
        let again = rlx_core::ir::parse::parse(&g.to_string());
        assert_eq!(again.as_ref().map(ToString::to_string), Ok(g.to_string()), "{}", op.name());
    }
}

// A window partition is a reshape and a transpose; im2col with tiles is the same thing.
#[test]
fn tiles_of_im2col_are_windows_of_an_image() {
    let x = Value::new(DType::F32, &[1, 1, 2, 4], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let op = Im2Col { kernel: vec![2, 2], window: Window::new(2).stride(&[2, 2]) };
    let y = execute(&op.into(), &[x]);
    near("im2col", &y[0], &[0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0], 0.0);
}

#[test]
fn sizes_that_no_memory_holds_are_errors() {
    let x = Value::noise(DType::F32, &[1, 1, 2, 2], 1);
    let far = 1 << 31;
    let wide = Window::new(2).pad(&[far, far], &[far, far]);
    let ops: Vec<(Op, Vec<Value>)> = vec![
        (Im2Col { kernel: vec![1, 1], window: wide.clone() }.into(), vec![x.clone()]),
        (
            Conv { window: wide.clone(), groups: 1, bias: false }.into(),
            vec![x.clone(), Value::noise(DType::F32, &[1, 1, 1, 1], 2)],
        ),
        (
            Pool {
                kind: PoolKind::Average,
                kernel: vec![1, 1],
                window: wide,
                count_padding: false,
            }
            .into(),
            vec![x.clone()],
        ),
        (
            Interpolate {
                size: vec![u64::MAX, 2],
                mode: Interpolation::Linear,
                align_corners: false,
                antialias: false,
            }
            .into(),
            vec![x.clone()],
        ),
    ];
    for (op, operands) in ops {
        let views: Vec<View<'_>> = operands.iter().map(|v| View::new(&v.ty, &v.bytes)).collect();
        let e = rlx_core::reference::run(&op, &views).unwrap_err();
        let full = e.what.starts_with("no room for") || e.what.ends_with("overflows 64 bits");
        assert!(full, "{}: {e}", op.name());
        // Taking it apart asks for no memory either: it fails, or leaves the operator whole.
        let mut graph = Graph::new("large");
        let params: Vec<_> =
            operands.iter().map(|v| graph.param(ParamKind::Input, "x", v.ty.clone())).collect();
        let mut e = Emitter { graph: &mut graph, label: "part" };
        if let Ok(Some(results)) = op.decompose(&mut e, &params) {
            assert_eq!(results.len(), 1, "{}", op.name());
        }
    }
}
