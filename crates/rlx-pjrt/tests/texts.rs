//! Texts of small graphs, as they are recorded in `tests/texts`: what changes in them is to be read.

use crate::bless::bless;
use crate::common::case;
use crate::step::{Buffers, Operand, control, input, state, weight};
use rlx_core::ops::{Binary, KvWrite, MatMul, Op, Zip};
use rlx_core::types::{BlockFormat, DType};
use rlx_pjrt::lower::lower;

fn check(name: &str, op: impl Into<Op>, operands: &[Operand]) {
    let text = lower(&case(op, operands, Buffers::One).graph).unwrap().text;
    let path = format!("{}/tests/texts/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    if bless() {
        std::fs::write(&path, &text).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, recorded, "{path}: BLESS=1 writes it anew");
}

#[test]
fn texts_are_those_that_are_recorded() {
    let (x, row) = (input(&[2, 3], &[0.0; 6]), input(&[3], &[0.0; 3]));
    check("zip", Zip { f: Binary::Add }, &[x, row]);
    let packed = weight(DType::Block(BlockFormat::Q8_0), &[2, 32], vec![0; 68]);
    check("matmul_q8_0", MatMul::plain(), &[input(&[1, 32], &[0.0; 32]), packed]);
    let cache = state(DType::F16, &[2, 8, 4], vec![0; 128]);
    check(
        "kv_write",
        KvWrite::default(),
        &[cache.clone(), input(&[1, 8], &[0.0; 8]), control(0, 1, 0)],
    );
    check(
        "kv_write_ring",
        KvWrite { ring: true },
        &[cache, input(&[3, 8], &[0.0; 24]), control(0, 1, 0)],
    );
}
