//! Sizes that are symbols: types come out in them, and so do decompositions that bind later.

use crate::support::{Value, apart, execute, near};
use rlx_core::ops::*;
use rlx_core::reference::interpret;
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
