//! Cases that PyTorch, ONNX Runtime and ml_dtypes computed.

use crate::operators::support::{Value, agrees, execute, fixture, near};
use rlx_core::ops::{Attr, Attrs, Op};
use rlx_core::types::small_float::decode_e8m0;
use rlx_core::types::{DType, SmallFloat};
use serde_json::Value as Json;
use std::collections::BTreeMap;

fn read(name: &str) -> Json {
    serde_json::from_str(&std::fs::read_to_string(fixture(name)).unwrap()).unwrap()
}

fn attr(json: &Json) -> Attr {
    match json {
        Json::Bool(b) => Attr::Bool(*b),
        Json::String(s) => Attr::Name(s.clone()),
        Json::Array(list) => Attr::List(list.iter().map(attr).collect()),
        Json::Number(n) => n.as_i64().map_or_else(|| Attr::Float(n.as_f64().unwrap()), Attr::Int),
        other => panic!("{other}"),
    }
}

fn floats(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect()
}

fn value(json: &Json) -> Value {
    let dtype = DType::from_name(json[0].as_str().unwrap()).unwrap();
    let dims: Vec<u64> = json[1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    Value::new(dtype, &dims, &floats(&json[2]))
}

/// Runs every case and takes it apart; counts them by operator, those that came apart behind.
fn check(cases: &Json) -> BTreeMap<String, (usize, usize)> {
    let mut counts = BTreeMap::new();
    for case in cases.as_array().unwrap() {
        let name = case["op"].as_str().unwrap();
        let attrs = case["attrs"].as_object().unwrap();
        let attrs = Attrs(attrs.iter().map(|(k, v)| (k.clone(), attr(v))).collect());
        let op = Op::from_text(name, &attrs).unwrap_or_else(|e| panic!("{name}{attrs}: {e}"));
        let all =
            |key: &str| -> Vec<Value> { case[key].as_array().unwrap().iter().map(value).collect() };
        let (operands, expected) = (all("operands"), all("results"));
        let what = format!("{name}{attrs}");
        let results = execute(&op, &operands);
        assert_eq!(results.len(), expected.len(), "{what}");
        for (got, expected) in results.iter().zip(&expected) {
            assert_eq!(got.ty, expected.ty, "{what}");
            // f32 operands of an f64 computation: only their rounding is between the two.
            near(&what, got, &expected.f64s(), 1e-6);
        }
        let entry = counts.entry(name.to_string()).or_insert((0, 0));
        entry.0 += 1;
        entry.1 += usize::from(agrees(&op, &operands, 2e-6));
    }
    counts
}

#[test]
fn references_and_decompositions_agree_with_pytorch() {
    let counts = check(&read("torch.json"));
    let expected = [
        ("ada_norm", (1, 1)),
        ("batch_norm_inference", (1, 1)),
        ("cholesky", (1, 0)),
        ("conv", (8, 8)),
        ("conv_transpose", (5, 5)),
        ("dense_solve", (2, 0)),
        ("dequantize", (2, 2)),
        ("fake_quantize", (3, 3)),
        ("fake_quantize_lsq", (3, 3)),
        // Half of them have rows of c64.
        ("fft", (8, 4)),
        ("group_norm", (3, 3)),
        ("im2col", (1, 1)),
        ("interpolate", (23, 23)),
        ("layer_norm", (2, 2)),
        ("layer_norm_2d", (1, 1)),
        ("log_mel", (2, 2)),
        ("pool", (6, 6)),
        ("quantize", (4, 4)),
    ];
    let expected = expected.into_iter().map(|(name, n)| (name.to_string(), n)).collect();
    assert_eq!(counts, expected);
}

#[test]
fn integer_products_agree_with_onnx_runtime() {
    let counts = check(&read("onnx.json")["cases"]);
    let expected = [("q_conv2d".to_string(), (3, 3)), ("q_matmul".to_string(), (2, 2))];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn every_code_of_a_small_float_has_the_value_that_ml_dtypes_gives_it() {
    let record = read("onnx.json");
    let mut formats = 0;
    for (name, table) in record["formats"].as_object().unwrap() {
        let format = SmallFloat::from_name(name).unwrap();
        let table = floats(table);
        assert_eq!(table.len(), 1 << format.bits());
        for (code, expected) in table.iter().enumerate() {
            let got = format.decode(code as u8);
            // Infinity and NaN are not in the record.
            let same = if expected.is_nan() { !got.is_finite() } else { got == *expected };
            assert!(same, "{name} {code}: {got}, expected {expected}");
        }
        let samples = floats(&record["samples"]);
        for (x, code) in samples.iter().zip(floats(&record["codes"][name])) {
            let got = format.encode(f64::from(*x as f32));
            assert_eq!(f64::from(got), code, "{name} of {x}");
        }
        formats += 1;
    }
    assert_eq!(formats, SmallFloat::all().count());
    for (code, expected) in floats(&record["scales"]).into_iter().enumerate() {
        let got = decode_e8m0(code as u8);
        // Reading JSON may be off in the last bit.
        let same = (got - expected).abs() <= 1e-15 * expected;
        assert!(same || got.is_nan() && expected.is_nan(), "{code}: {got}");
    }
}
