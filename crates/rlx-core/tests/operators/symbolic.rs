//! Sizes that are symbols: types come out in them, and so do decompositions that bind later.

use crate::operators::support::{Value, apart, execute, near};
use rlx_core::ir::mir::Graph;
use rlx_core::ir::parse::parse;
use rlx_core::ops::*;
use rlx_core::passes::optimise;
use rlx_core::plan::{at_run, plan_bounded};
use rlx_core::reference::interpret;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{Binding, DType, Dim, Shape, Type};

fn sizes(text: &[&str]) -> Type {
    Type::tensor(DType::F32, Shape(text.iter().map(|d| Dim::parse(d).unwrap()).collect()))
}

#[test]
fn batch_and_places_stay_symbols_and_what_comes_apart_binds_later() {
    let vector = |n: &str| sizes(&[n]);
    let cases: Vec<(Op, Vec<Type>, &str)> = vec![
        (
            LayerNorm { eps: 1e-5, bias: true }.into(),
            vec![sizes(&["BATCH", "SEQ", "8"]), vector("8"), vector("8")],
            "BATCHxSEQx8xf32",
        ),
        (
            AdaNorm { norm: NormKind::LayerNorm, eps: 1e-5 }.into(),
            vec![sizes(&["BATCH", "SEQ", "8"]), sizes(&["BATCH", "1", "8"]), vector("8")],
            "BATCHxSEQx8xf32",
        ),
        (
            ResidualRmsNorm { eps: 1e-5, bias: false }.into(),
            vec![sizes(&["SEQ", "8"]), sizes(&["SEQ", "8"]), vector("8")],
            "SEQx8xf32",
        ),
        (
            GroupNorm { groups: 2, eps: 1e-5 }.into(),
            vec![sizes(&["BATCH", "4", "SEQ", "W"]), vector("4"), vector("4")],
            "BATCHx4xSEQxWxf32",
        ),
        (
            Conv { window: Window::new(1).pad(&[1], &[1]), groups: 1, bias: true }.into(),
            vec![sizes(&["BATCH", "4", "SEQ"]), sizes(&["6", "4", "3"]), vector("6")],
            "BATCHx6xSEQxf32",
        ),
        (
            Conv { window: Window::new(2).stride(&[2, 2]), groups: 2, bias: false }.into(),
            vec![sizes(&["BATCH", "4", "2*SEQ", "6"]), sizes(&["6", "2", "2", "2"])],
            "BATCHx6xSEQx3xf32",
        ),
        (
            ConvTranspose {
                window: Window::new(2).stride(&[2, 2]),
                extra: vec![0, 0],
                groups: 1,
                bias: false,
            }
            .into(),
            vec![sizes(&["BATCH", "4", "SEQ", "W"]), sizes(&["4", "2", "2", "2"])],
            "BATCHx2x2*SEQx2*Wxf32",
        ),
        (
            Pool {
                kind: PoolKind::Average,
                kernel: vec![2],
                window: Window::new(1).stride(&[2]),
                count_padding: false,
            }
            .into(),
            vec![sizes(&["BATCH", "4", "SEQ"])],
            "BATCHx4xfloordiv(SEQ,2)xf32",
        ),
        (
            Conv { window: Window::new(1).dilation(&[2]), groups: 1, bias: true }.into(),
            vec![sizes(&["BATCH", "4", "SEQ"]), sizes(&["6", "4", "3"]), vector("6")],
            "BATCHx6xSEQ-4xf32",
        ),
        (
            Conv { window: Window::new(2).stride(&[2, 1]), groups: 1, bias: false }.into(),
            vec![sizes(&["BATCH", "2", "SEQ", "W"]), sizes(&["3", "2", "4", "2"])],
            "BATCHx3xfloordiv(SEQ-2,2)xW-1xf32",
        ),
        (
            Pool {
                kind: PoolKind::Max,
                kernel: vec![3],
                window: Window::new(1),
                count_padding: false,
            }
            .into(),
            vec![sizes(&["BATCH", "4", "SEQ"])],
            "BATCHx4xSEQ-2xf32",
        ),
        (
            ConvTranspose {
                window: Window::new(1).stride(&[2]).pad(&[2], &[1]),
                extra: vec![0],
                groups: 1,
                bias: false,
            }
            .into(),
            vec![sizes(&["BATCH", "4", "SEQ"]), sizes(&["4", "2", "2"])],
            "BATCHx2x2*SEQ-3xf32",
        ),
        (
            Interpolate {
                size: vec![5, 5],
                mode: Interpolation::Linear,
                align_corners: false,
                antialias: false,
            }
            .into(),
            vec![sizes(&["BATCH", "SEQ", "3", "4"])],
            "BATCHxSEQx5x5xf32",
        ),
    ];
    let binding: Binding =
        [("BATCH", 2), ("SEQ", 6), ("W", 3)].map(|(k, v)| (k.to_string(), v)).into();
    for (op, types, expected) in cases {
        let y = op.infer(&types.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(y.last().unwrap().to_string(), format!("tensor<{expected}>"));
        let g = apart(&op, &types).unwrap_or_else(|| panic!("{} stays whole", op.name()));
        let g = g.specialize("bound", &binding).unwrap_or_else(|e| panic!("{e}\n{g}"));
        let operands: Vec<Value> = types
            .iter()
            .enumerate()
            .map(|(i, ty)| {
                let dims = ty.bind(&binding).unwrap().shape.static_dims().unwrap();
                Value::noise(DType::F32, &dims, 1 + i as u64)
            })
            .collect();
        let bytes: Vec<&[u8]> = operands.iter().map(|v| v.bytes.as_slice()).collect();
        let got = interpret(&g, &bytes).unwrap_or_else(|e| panic!("{e}\n{g}")).outputs;
        for (expected, bytes) in execute(&op, &operands).into_iter().zip(got) {
            let got = Value { ty: expected.ty.clone(), bytes };
            near(op.name(), &got, &expected.f64s(), 2e-6);
        }
    }
}

/// Two windows of three take four, and padding gives them back: the sum has one shape.
const UNPADDED: &str = "
func @edges {
  input %x : tensor<1x2xSEQxf32>
  weight %w : tensor<2x2x3xf32>
  %0 = conv %x, %w {WINDOW} -> tensor<1x2xSEQ-2xf32> // first
  %1 = conv %0, %w {WINDOW} -> tensor<1x2xSEQ-4xf32> // second
  %2 = pad %1 {low = [0, 0, 2], high = [0, 0, 2], mode = constant, value = 0.0} -> tensor<1x2xSEQxf32> // back
  %3 = zip %2, %x {f = add} -> tensor<1x2xSEQxf32> // sum
  %4 = slice %3 {axis = 2, start = 1, len = SEQ-1, step = 1} -> tensor<1x2xSEQ-1xf32> // tail
  return y = %4
}
";

fn unpadded() -> Graph {
    let window = "{stride = [1], pad_low = [0], pad_high = [0], dilation = [1], groups = 1}";
    parse(&UNPADDED.trim_start().replace("{WINDOW}", window)).unwrap()
}

#[test]
fn windows_without_padding_take_from_a_symbol_and_padding_gives_it_back() {
    let g = unpadded();
    assert_eq!(parse(&g.to_string()).unwrap(), g);
    let at = |seq: u64| g.specialize("bound", &[("SEQ".to_string(), seq)].into());
    assert_eq!(at(5).unwrap().ty(g.outputs[0].value).to_string(), "tensor<1x2x4xf32>");
    for (seq, label, left) in [(4, "second", 2), (2, "first", 2)] {
        let e = at(seq).unwrap_err();
        assert_eq!(e.at, label);
        let what = "a window of 3 elements does not fit, with 0 of padding";
        assert_eq!(e.what, format!("conv: spatial axis 0 is {left}; {what}"));
        assert_eq!(e.hint, format!("with SEQ = {seq}"));
    }
    // An attribute has no type rule of its own.
    let text = "func @f {\n  input %x : tensor<SEQxf32>\n  %0 = slice %x {axis = 0, start = 0, len = SEQ-3, step = 1} -> tensor<SEQ-3xf32> // cut\n  return y = %0\n}\n";
    let e = parse(text).unwrap().specialize("bound", &[("SEQ".to_string(), 3)].into()).unwrap_err();
    assert_eq!((e.what.as_str(), e.at.as_str()), ("a size of SEQ-3 is 0 with SEQ = 3", "cut"));
    // A parameter names itself.
    let text = "func @f {\n  input %x : tensor<SEQ-3xf32>\n  return y = %x\n}\n";
    let e = parse(text).unwrap().specialize("bound", &[("SEQ".to_string(), 3)].into()).unwrap_err();
    assert_eq!((e.what.as_str(), e.at.as_str()), ("a size of SEQ-3 is 0 with SEQ = 3", "%x"));
}

#[test]
fn a_program_of_an_unpadded_window_is_planned_at_its_bound_and_runs_below_it() {
    let g = unpadded();
    let (target, options) = (Target::reference(), CompileOptions::default());
    let (g, _) = optimise(g, &target, &options).unwrap();
    let bounds: Binding = [("SEQ".to_string(), 9)].into();
    let program = plan_bounded(g.clone(), &bounds, &[], &target, &options).unwrap();
    for seq in [5, 8, 9] {
        let run = at_run(&program, &[("SEQ".to_string(), seq)].into()).unwrap();
        assert_eq!(run.outputs[0].slice.bytes, 4 * 2 * (seq - 1));
    }
    assert_eq!(at_run(&program, &[("SEQ".to_string(), 4)].into()).unwrap_err().at, "second");
    let few: Binding = [("SEQ".to_string(), 2)].into();
    let e = plan_bounded(g, &few, &[], &target, &options).unwrap_err();
    assert_eq!(e.what, "a size of SEQ-2 is never 1 or more");
}

#[test]
fn what_symbols_cannot_say_stays_whole() {
    let shrinks = Pool {
        kind: PoolKind::Average,
        kernel: vec![3],
        window: Window::new(1).stride(&[1]).pad(&[1], &[1]),
        count_padding: false,
    };
    assert!(apart(&shrinks.into(), &[sizes(&["1", "2", "SEQ"])]).is_none());
    let grows = Interpolate {
        size: vec![8],
        mode: Interpolation::Nearest,
        align_corners: false,
        antialias: false,
    };
    assert!(apart(&grows.into(), &[sizes(&["1", "2", "SEQ"])]).is_none());
}
