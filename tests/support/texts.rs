//! What a session owes a language model on every executor: a text's ids give the logits behind each of them, whatever
//! the session was asked before. The models are block graphs of `tests/fixtures/graphs` with random weights; one of
//! them has a recurrence beside its caches.

use crate::session::{open, run};
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::ir::GraphModule;
use rlx_core::ir::hir::Module;
use rlx_core::ir::mir::ParamKind;
use rlx_core::ir::parse::parse_hir;
use rlx_core::lower::{ProgramSpec, lower, lower_all_rows};
use rlx_core::reference::interpret;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{Entry, TensorRef};
use rlx_core::sample::Control;
use rlx_core::types::DType;
use std::sync::Arc;

fn module(name: &str) -> Module {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/graphs");
    let text = std::fs::read_to_string(format!("{folder}/{name}.hir")).unwrap();
    parse_hir(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Floats by a weight's name: norms are positive, an eighth to one.
fn floats(name: &str, n: u64) -> Vec<u8> {
    let mut x = name.bytes().fold(17u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into())) | 1;
    let low = if name.contains("norm") { 0.125 } else { -1.0 };
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        low + (1.0 - low) * (x % 4096) as f32 / 4096.0
    };
    (0..n).flat_map(|_| next().to_le_bytes()).collect()
}

/// The logits of a text, a program of its length interpreted from the first position on.
fn interpreted(module: &Module, weights: &[(String, Vec<u8>)], ids: &[u8], len: u32) -> Vec<f32> {
    let g = lower(module, &ProgramSpec::verify(len.into(), false), DType::F32).unwrap();
    // A program of one row reads its id there.
    let token = u32::from_le_bytes([ids[0], ids[1], ids[2], ids[3]]);
    let control = Control { len, token, capacity: module.context as u32, ..Control::default() };
    let control: Vec<u8> = control.to_words().iter().flat_map(|w| w.to_le_bytes()).collect();
    let values: Vec<Vec<u8>> = g
        .params
        .iter()
        .map(|p| match p.kind {
            ParamKind::Input if p.name == "ids" => ids.to_vec(),
            ParamKind::Input => floats(&p.name, g.ty(p.value).shape.elements().unwrap()),
            ParamKind::State if p.name == "ctl" => control.clone(),
            ParamKind::State => vec![0; g.ty(p.value).bytes().unwrap() as usize],
            _ => weights.iter().find(|w| w.0 == p.name).unwrap().1.clone(),
        })
        .collect();
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let i = g.outputs.iter().position(|o| o.name == "logits").unwrap();
    let bytes = &interpret(&g, &values).unwrap().outputs[i];
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The inputs of a run: the other ones and the ids.
fn given<'a>(
    others: &'a [(String, Vec<u64>, Vec<u8>)],
    dims: &'a [u64],
    ids: &'a [u8],
) -> Vec<(&'a str, TensorRef<'a>)> {
    let one = |(name, dims, bytes): &'a (String, Vec<u64>, Vec<u8>)| {
        (name.as_str(), TensorRef { dtype: DType::F32, dims, bytes })
    };
    let text = ("ids", TensorRef { dtype: DType::U32, dims, bytes: ids });
    others.iter().map(one).chain([text]).collect()
}

/// Every row of logits is the reference's, of texts of any length in any order; a text that is longer than the caches
/// is refused, and the session answers on.
pub fn a_text_gives_the_logits_behind_each_of_its_ids(device: Arc<dyn Device>) {
    for name in &["llama", "gemma", "qwen3", "qwen35"] {
        let module = module(name);
        let g = lower_all_rows(&module, DType::F32).unwrap();
        let weights = g.params.iter().filter(|p| p.kind == ParamKind::Weight);
        let weights: Vec<(String, Vec<u8>)> = weights
            .map(|p| {
                let ty = g.ty(p.value);
                assert_eq!(ty.dtype, DType::F32);
                (p.name.clone(), floats(&p.name, ty.shape.elements().unwrap()))
            })
            .collect();
        let tensors: Vec<(&str, Vec<u8>)> =
            weights.iter().map(|(n, b)| (n.as_str(), b.clone())).collect();
        let entry = Entry {
            name: (*name).into(),
            module: GraphModule::Hir(Box::new(module.clone())),
            profile: None,
        };
        let mut session = open(device.clone(), vec![entry], &tensors).unwrap();
        let inputs = session.inputs(name).unwrap().to_vec();
        let ids_at = inputs.iter().position(|i| i.name == "ids").unwrap();
        assert_eq!(inputs[ids_at].ty.to_string(), "tensor<SEQxu32>", "{name}");
        // What a convolution keeps of the rows before the text is an input of one of them.
        let others: Vec<(String, Vec<u64>, Vec<u8>)> = inputs
            .iter()
            .filter(|i| i.name != "ids")
            .map(|i| {
                let dims = i.ty.shape.static_dims().unwrap();
                (i.name.clone(), dims.clone(), floats(&i.name, dims.iter().product()))
            })
            .collect();
        let ids = |n: u64, seed: u64| -> Vec<u8> {
            (0..n).flat_map(|i| (((i * 7 + seed) % 5) as u32 % 2).to_le_bytes()).collect()
        };
        let mut first = None;
        for (len, seed) in [(5, 1), (9, 2), (1, 3), (module.context, 4), (5, 1)] {
            let (bytes, dims) = (ids(len, seed), [len]);
            let text = given(&others, &dims, &bytes);
            let got = run(&mut session, name, &text).unwrap();
            let got = got.iter().find(|t| t.name == "logits").unwrap();
            let expected = interpreted(&module, &weights, &bytes, len as u32);
            assert_eq!(got.dims, [len, expected.len() as u64 / len], "{name}");
            let numbers = got.f32s().unwrap();
            let apart = difference(&numbers, &expected).relative();
            assert!(apart <= 2e-5, "{name}, {len} ids: {apart}");
            if (len, seed) == (5, 1) {
                let first = first.get_or_insert_with(|| got.clone());
                assert_eq!(first, got, "{name}: what ran between changed the text's logits");
            }
            let many = module.context + 1;
            let (bytes, dims) = (ids(many, 1), [many]);
            let text = given(&others, &dims, &bytes);
            let e = session.start(name, &text).map(|_| ()).unwrap_err();
            let said =
                format!("a text of {many} tokens: the caches have {} positions", module.context);
            assert_eq!((e.code, e.what, e.at.as_str()), (Code::Usage, said, *name));
        }
    }
}
