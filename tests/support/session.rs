//! What a session owes on every executor: entries of any sizes over weights that are loaded once, errors that
//! say what was given and what is wanted, and states that stay.

use crate::load::{Hand, fill, wait};
use rlx_core::error::Details;
use rlx_core::ir::GraphModule;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{Binary, Cast, Gather, Iota, MatMul, Slice, Zip};
use rlx_core::reference::interpret;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::load::placements;
use rlx_core::runtime::session::{Entry, Given, Opening, Session, Tensor, TensorRef, VARIANTS};
use rlx_core::target::CompileOptions;
use rlx_core::types::{BATCH, Binding, DType, Dim, SEQ, Shape, Type};
use rlx_core::{Code, Result};
use std::sync::Arc;

/// Rows of the table, and of the weight.
const TABLE: u64 = 40;
const WIDTH: u64 = 32;

/// A session of these entries whose weights stand one behind the other in `file`.
pub fn open(
    device: Arc<dyn Device>,
    entries: Vec<Entry>,
    tensors: &[(&str, Vec<u8>)],
) -> Result<Session> {
    let mut file = Vec::new();
    let mut places = Vec::new();
    for (name, bytes) in tensors {
        places.push((*name, file.len() as u64, bytes.len() as u64));
        file.extend_from_slice(bytes);
    }
    let locate = |name: &str| places.iter().find(|p| p.0 == name).map(|p| (0, p.1, p.2));
    let opening = Opening::new(device, entries, &CompileOptions::default(), locate)?;
    fill(opening, &[Arc::new(file)], Hand::Pieces(usize::MAX))
}

/// Runs an entry to its end.
pub fn run(
    session: &mut Session,
    entry: &str,
    inputs: &[(&str, TensorRef<'_>)],
) -> Result<Vec<Tensor>> {
    let mut run = session.start(entry, inputs)?;
    wait(|cx| run.poll(session, cx))
}

fn floats(n: u64, seed: u32) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        (x % 2001) as f32 / 1000.0 - 1.0
    };
    (0..n).flat_map(|_| next().to_le_bytes()).collect()
}

/// `y[BATCH, SEQ, WIDTH] = x w^T + table[:SEQ] + (0, 1, …)`: a weight that is multiplied by, rows of a table and
/// a constant whose sizes follow the input's.
fn rows() -> Graph {
    let mut g = Graph::new("rows");
    let f32s = |dims: Vec<Dim>| Type::tensor(DType::F32, Shape(dims));
    let (batch, seq) = (Dim::symbol(BATCH), Dim::symbol(SEQ));
    let x = f32s(vec![batch, seq.clone(), Dim::from(8u64)]);
    let x = g.param(ParamKind::Input, "x", x);
    let w = Type::tensor(DType::F32, Shape::of(&[WIDTH, 8]));
    let w = g.param(ParamKind::Weight, "w", w);
    let table = Type::tensor(DType::F32, Shape::of(&[TABLE, WIDTH]));
    let table = g.param(ParamKind::Weight, "table", table);
    let y = g.push1(MatMul::plain(), &[x, w], "product").unwrap();
    let first = Slice { axis: 0, start: Dim::from(0u64), len: seq.clone(), step: 1 };
    let first = g.push1(first, &[table], "first").unwrap();
    let y = g.push1(Zip { f: Binary::Add }, &[y, first], "positions").unwrap();
    let dims = Shape(vec![seq, Dim::from(WIDTH)]);
    let count = g.push1(Iota { dtype: DType::F32, dims, axis: 0 }, &[], "count").unwrap();
    let y = g.push1(Zip { f: Binary::Add }, &[y, count], "y").unwrap();
    g.output("y", y);
    g
}

fn entry(name: &str, g: Graph) -> Entry {
    Entry { name: name.into(), module: GraphModule::Mir(Box::new(g)), profile: None }
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Entries answer for every size, in any order, as the reference interprets them; an error leaves the session
/// as it was; what is dropped is freed.
pub fn entries_answer_for_every_size(device: Arc<dyn Device>) {
    let before = device.counters().live_bytes;
    let tensors = [("w", floats(WIDTH * 8, 5)), ("table", floats(TABLE * WIDTH, 9))];
    let entries = vec![entry("rows", rows()), entry("again", rows())];
    let mut session = open(device.clone(), entries, &tensors).unwrap();
    assert_eq!(session.entries().collect::<Vec<_>>(), ["rows", "again"]);
    assert_eq!(session.inputs("rows").unwrap()[0].name, "x");
    assert_eq!(session.outputs("rows").unwrap()[0].ty.shape.rank(), 3);
    // More sizes than the session keeps programs, the first of them twice; a larger arena after a smaller.
    let sizes: Vec<(u64, u64)> = (1..=VARIANTS as u64 + 2).map(|n| (n % 3 + 1, n)).collect();
    let sizes = sizes.iter().chain(&sizes[..2]).chain(&[(2, TABLE), (1, 1)]);
    for (i, &(batch, seq)) in sizes.enumerate() {
        let x = floats(batch * seq * 8, 77 + i as u32);
        let sizes = Binding::from([(BATCH.into(), batch), (SEQ.into(), seq)]);
        let g = rows().specialize("rows", &sizes).unwrap();
        let params: Vec<&[u8]> = vec![&x, &tensors[0].1, &tensors[1].1];
        let expected = f32s(&interpret(&g, &params).unwrap().outputs[0]);
        let dims = [batch, seq, 8];
        let x = TensorRef { dtype: DType::F32, dims: &dims, bytes: &x };
        let name = if i % 2 == 0 { "rows" } else { "again" };
        let got = run(&mut session, name, &[("x", x)]).unwrap();
        assert_eq!(got[0].name, "y");
        assert_eq!(got[0].dims, [batch, seq, WIDTH]);
        let got = got[0].f32s().unwrap();
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{got} {expected}");
        }
        refusals(&mut session);
    }
    // A run that another overtakes is given up; the other answers.
    let (x, dims) = (floats(8 * 7, 3), [1, 7, 8]);
    let x = TensorRef { dtype: DType::F32, dims: &dims, bytes: &x };
    let mut first = session.start("rows", &[("x", x)]).unwrap();
    let second = run(&mut session, "again", &[("x", x)]).unwrap();
    assert_eq!(second[0].dims, [1, 7, WIDTH]);
    let e = wait(|cx| first.poll(&mut session, cx)).unwrap_err();
    assert_eq!(e.code, Code::Cancelled);
    drop(session);
    assert_eq!(device.counters().live_bytes, before, "what a session had is freed");
}

/// `y[SEQ, WIDTH] = x w^T + bias`, of a weight and a bias of f16.
fn biased() -> Graph {
    let mut g = Graph::new("biased");
    let x = Type::tensor(DType::F32, Shape(vec![Dim::symbol(SEQ), Dim::from(8u64)]));
    let x = g.param(ParamKind::Input, "x", x);
    let mut weight = |name: &str, dims: &[u64]| {
        g.param(ParamKind::Weight, name, Type::tensor(DType::F16, Shape::of(dims)))
    };
    let (w, bias) = (weight("w", &[WIDTH, 8]), weight("bias", &[WIDTH]));
    let bias = g.push1(Cast { to: DType::F32 }, &[bias], "bias").unwrap();
    let op = MatMul { bias: true, ..MatMul::plain() };
    let y = g.push1(op, &[x, w, bias], "product").unwrap();
    g.output("y", y);
    g
}

/// A vector of 16-bit floats is widened while loading or when a program is built, and by no step; its bytes in the file
/// still have one place to go to.
pub fn vectors_of_halves_are_widened_by_no_step(device: Arc<dyn Device>) {
    let before = device.counters().live_bytes;
    let halves = |n: u64, seed: u32| -> Vec<u8> {
        let of = |x: f32| half::f16::from_f32(x).to_le_bytes();
        f32s(&floats(n, seed)).into_iter().flat_map(of).collect()
    };
    let tensors = [("w", halves(WIDTH * 8, 5)), ("bias", halves(WIDTH, 9))];
    let locate = |name: &str| {
        let at = tensors.iter().position(|t| t.0 == name)?;
        let start: usize = tensors[..at].iter().map(|t| t.1.len()).sum();
        Some((0, start as u64, tensors[at].1.len() as u64))
    };
    let entries = || vec![entry("biased", biased()), entry("again", biased())];
    let options = CompileOptions::default();
    let opening = Opening::new(device.clone(), entries(), &options, locate).unwrap();
    let places = placements(opening.weights().plan(), 0);
    assert!(places.is_sorted_by(|a, b| a.file_offset + a.bytes <= b.file_offset), "{places:?}");
    drop(opening);

    let mut session = open(device.clone(), entries(), &tensors).unwrap();
    for (name, seq) in [("biased", 1), ("again", 5), ("biased", 70), ("biased", 5)] {
        let x = floats(seq * 8, 3 + seq as u32);
        let g = biased().specialize("biased", &Binding::from([(SEQ.into(), seq)])).unwrap();
        let params: Vec<&[u8]> = vec![&x, &tensors[0].1, &tensors[1].1];
        let expected = f32s(&interpret(&g, &params).unwrap().outputs[0]);
        let dims = [seq, 8];
        let x = TensorRef { dtype: DType::F32, dims: &dims, bytes: &x };
        let got = run(&mut session, name, &[("x", x)]).unwrap();
        for (got, expected) in got[0].f32s().unwrap().iter().zip(&expected) {
            assert!((got - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{got} {expected}");
        }
    }
    let casts = session.programs().flat_map(|(_, p)| &p.steps).filter(|s| s.op.name() == "cast");
    assert_eq!(casts.count(), 0);
    drop(session);
    assert_eq!(device.counters().live_bytes, before, "what a session had is freed");
}

/// Programs are built, and weights change their form, right behind runs: no worker holds what it has finished.
#[allow(dead_code)] // for executors with threads
pub fn programs_are_built_right_behind_runs(device: Arc<dyn Device>) {
    let tensors = [("w", floats(WIDTH * 8, 5)), ("table", floats(TABLE * WIDTH, 9))];
    let mut session = open(device, vec![entry("rows", rows())], &tensors).unwrap();
    for i in 0..3 * TABLE {
        let dims = [3, i % TABLE + 1, 8];
        let x = floats(dims.iter().product(), 7);
        let x = TensorRef { dtype: DType::F32, dims: &dims, bytes: &x };
        let got = run(&mut session, "rows", &[("x", x)]).unwrap_or_else(|e| panic!("{i}: {e}"));
        assert_eq!(got[0].dims, [3, dims[1], WIDTH]);
    }
}

fn refusals(session: &mut Session) {
    let bytes = floats(16, 1);
    let tensor = |dims: &'static [u64]| TensorRef { dtype: DType::F32, dims, bytes: &bytes };
    let mut refused = |entry: &str, inputs: &[(&str, TensorRef<'_>)], what: &str, hint: &str| {
        let e = session.start(entry, inputs).map(|_| ()).unwrap_err();
        assert_eq!((e.code, e.what.as_str(), e.hint.as_str()), (Code::Usage, what, hint));
        let details = what.contains("was given as").then(|| Details::Tensor {
            input: "x".into(),
            given: inputs[0].1.dims.to_vec(),
            wanted: "tensor<BATCHxSEQx8xf32>".into(),
        });
        assert_eq!(e.details.as_deref(), details.as_ref(), "{what}");
    };
    let good = tensor(&[1, 2, 8]);
    let wanted = "its inputs: x: tensor<BATCHxSEQx8xf32>";
    refused("row", &[("x", good)], "the model has no entry row", "entries: rows, again");
    refused("rows", &[], "input x is missing", wanted);
    refused("rows", &[("z", good)], "rows has no input z", wanted);
    refused("rows", &[("x", good), ("x", good)], "input x was given twice", "");
    let what = "input x is tensor<BATCHxSEQx8xf32>, and was given as f32 [2, 8]";
    refused("rows", &[("x", tensor(&[2, 8]))], what, "");
    let what = "input x is tensor<BATCHxSEQx8xf32>, and was given as [1, 4, 4]";
    refused("rows", &[("x", tensor(&[1, 4, 4]))], what, "");
    let what = "input x of f32 [1, 3, 8] has 64 bytes, not 96";
    refused("rows", &[("x", tensor(&[1, 3, 8]))], what, "");
    let u32s = TensorRef { dtype: DType::U32, ..good };
    let what = "input x is tensor<BATCHxSEQx8xf32>, and was given as u32 [1, 2, 8]";
    refused("rows", &[("x", u32s)], what, "");
}

/// `total = a + b` and `difference = a - b` over rows of any number.
fn both() -> Graph {
    let mut g = Graph::new("both");
    let dims = vec![Dim::symbol(BATCH), Dim::symbol(SEQ), Dim::from(WIDTH)];
    let ty = Type::tensor(DType::F32, Shape(dims));
    let a = g.param(ParamKind::Input, "a", ty.clone());
    let b = g.param(ParamKind::Input, "b", ty);
    let total = g.push1(Zip { f: Binary::Add }, &[a, b], "total").unwrap();
    let difference = g.push1(Zip { f: Binary::Sub }, &[a, b], "difference").unwrap();
    g.output("total", total);
    g.output("difference", difference);
    g
}

/// An output that stays on the device is the input of other entries, outlives larger programs, and is read when it
/// is asked for; nothing of it passes through the host before.
pub fn outputs_stay_on_the_device(device: Arc<dyn Device>) {
    let before = device.counters().live_bytes;
    let tensors = [("w", floats(WIDTH * 8, 5)), ("table", floats(TABLE * WIDTH, 9))];
    let entries = || vec![entry("rows", rows()), entry("both", both())];
    let mut session = open(device.clone(), entries(), &tensors).unwrap();
    let (x, dims) = (floats(2 * 3 * 8, 4), [2, 3, 8]);
    let x = TensorRef { dtype: DType::F32, dims: &dims, bytes: &x };
    let expected = run(&mut session, "rows", &[("x", x)]).unwrap().remove(0);

    let read = device.counters().readback_bytes;
    let mut first = session.start("rows", &[("x", x)]).unwrap();
    let e = first.keep(&mut session, "z").map(|_| ()).unwrap_err();
    assert_eq!((e.what.as_str(), e.hint.as_str()), ("there is no output z", "outputs: y"));
    let y = first.keep(&mut session, "y").unwrap();
    assert!(first.keep(&mut session, "y").is_err(), "it stays already");
    assert!(wait(|cx| first.poll(&mut session, cx)).unwrap().is_empty());
    assert_eq!(device.counters().readback_bytes, read, "nothing was read back");
    assert_eq!((y.name(), y.dtype(), y.dims()), ("y", DType::F32, &[2, 3, WIDTH][..]));

    // A larger program, with a larger arena.
    let (large, dims) = (floats(4 * TABLE * 8, 4), [4, TABLE, 8]);
    let large = TensorRef { dtype: DType::F32, dims: &dims, bytes: &large };
    run(&mut session, "rows", &[("x", large)]).unwrap();
    let mut reading = session.read(&y).unwrap();
    assert_eq!(wait(|cx| reading.poll(&mut session, cx)).unwrap(), expected);

    // Two of one, one of the host and one of the device; one output stays, the other is read.
    let given = [("a", Given::from(&y)), ("b", Given::from(expected.as_ref()))];
    let mut second = session.start("both", &given).unwrap();
    let total = second.keep(&mut session, "total").unwrap();
    let answer = wait(|cx| second.poll(&mut session, cx)).unwrap();
    assert_eq!(answer.len(), 1);
    assert_eq!((answer[0].name.as_str(), &answer[0].dims), ("difference", &expected.dims));
    assert!(answer[0].f32s().unwrap().iter().all(|d| *d == 0.0));
    let mut third = session.start("both", &[("a", &total), ("b", &y)]).unwrap();
    drop((y, total)); // A run holds what it was given.
    let answer = wait(|cx| third.poll(&mut session, cx)).unwrap();
    let of = |i: usize| answer[i].f32s().unwrap();
    for (i, y) in expected.f32s().unwrap().into_iter().enumerate() {
        assert_eq!((of(0)[i], of(1)[i]), (y + y + y, y + y - y));
    }

    // Another session's tensor, and one of other sizes.
    let mut other = open(device.clone(), entries(), &tensors).unwrap();
    let mut fourth = session.start("rows", &[("x", x)]).unwrap();
    let y = fourth.keep(&mut session, "y").unwrap();
    wait(|cx| fourth.poll(&mut session, cx)).unwrap();
    let e = other.start("both", &[("a", &y), ("b", &y)]).map(|_| ()).unwrap_err();
    assert_eq!(e.what, "y stays in the memory of another session");
    assert!(other.read(&y).is_err());
    let e = session.start("rows", &[("x", &y)]).map(|_| ()).unwrap_err();
    assert_eq!((e.code, e.what.contains("was given as")), (Code::Usage, true), "{}", e.what);
    drop((session, other, third, fourth));
    drop(y);
    assert_eq!(device.counters().live_bytes, before, "what a session had is freed");
}

/// `y = table[ids] + few[signed] + table[signed]`: two inputs of ids, of which one is looked up in two tables.
fn looked_up() -> Graph {
    let mut g = Graph::new("looked_up");
    let ids = Type::tensor(DType::U32, Shape(vec![Dim::symbol(BATCH), Dim::symbol(SEQ)]));
    let ids = g.param(ParamKind::Input, "ids", ids);
    let signed = Type::tensor(DType::I64, Shape(vec![Dim::symbol(SEQ)]));
    let signed = g.param(ParamKind::Input, "signed", signed);
    let table = |g: &mut Graph, name: &str, rows: u64| {
        g.param(ParamKind::Weight, name, Type::tensor(DType::F32, Shape::of(&[rows, WIDTH])))
    };
    let (large, few) = (table(&mut g, "table", TABLE), table(&mut g, "few", 3));
    let mut y = g.push1(Gather::default(), &[large, ids], "rows").unwrap();
    for (table, name) in [(few, "few_rows"), (large, "more_rows")] {
        let rows = g.push1(Gather::default(), &[table, signed], name).unwrap();
        y = g.push1(Zip { f: Binary::Add }, &[y, rows], "sum").unwrap();
    }
    g.output("y", y);
    g
}

/// `twice = ids + ids`.
fn twice() -> Graph {
    let mut g = Graph::new("twice");
    let ids = Type::tensor(DType::U32, Shape(vec![Dim::symbol(BATCH), Dim::symbol(SEQ)]));
    let ids = g.param(ParamKind::Input, "ids", ids);
    let y = g.push1(Zip { f: Binary::Add }, &[ids, ids], "twice").unwrap();
    g.output("twice", y);
    g
}

/// An id of the host that is no row of its table is refused, with where it stands; those of the device are not
/// checked, and read the nearest row.
pub fn ids_outside_of_their_table_are_refused(device: Arc<dyn Device>) {
    let (table, few) = (floats(TABLE * WIDTH, 9), floats(3 * WIDTH, 5));
    let tensors = [("table", table.clone()), ("few", few.clone())];
    let entries = vec![entry("looked_up", looked_up()), entry("twice", twice())];
    let mut session = open(device, entries, &tensors).unwrap();
    let ids_bytes = |ids: &[u32; 6]| ids.map(u32::to_le_bytes).concat();
    let signed_bytes = |signed: &[i64; 3]| signed.map(i64::to_le_bytes).concat();
    fn of_ids(bytes: &[u8]) -> TensorRef<'_> {
        TensorRef { dtype: DType::U32, dims: &[2, 3], bytes }
    }
    fn of_signed(bytes: &[u8]) -> TensorRef<'_> {
        TensorRef { dtype: DType::I64, dims: &[3], bytes }
    }
    let start = |session: &mut Session, ids: &[u32; 6], signed: &[i64; 3]| {
        let (ids, signed) = (ids_bytes(ids), signed_bytes(signed));
        session.start("looked_up", &[("ids", of_ids(&ids)), ("signed", of_signed(&signed))])
    };
    // A negative id counts from the end.
    let row = |table: &[u8], id: i64| {
        let numbers = f32s(table);
        let rows = numbers.chunks(WIDTH as usize).collect::<Vec<_>>();
        rows[id.rem_euclid(rows.len() as i64) as usize].to_vec()
    };
    let expected = |ids: &[u32; 6], signed: &[i64; 3]| -> Vec<f32> {
        let pairs = ids.iter().zip(signed.iter().cycle());
        pairs
            .flat_map(|(&id, &s)| {
                let (a, b, c) = (row(&table, id.into()), row(&few, s), row(&table, s));
                a.into_iter().zip(b).zip(c).map(|((a, b), c)| a + b + c)
            })
            .collect()
    };
    let (ids, signed) = ([0, 39, 5, 1, 2, 38], [-3, 2, -1]);
    let answers = |session: &mut Session| {
        let mut run = start(session, &ids, &signed).unwrap();
        let answer = wait(|cx| run.poll(session, cx)).unwrap();
        assert_eq!(answer[0].f32s().unwrap(), expected(&ids, &signed));
    };
    answers(&mut session);
    let refused = [
        ([0, 39, 5, 1, 40, 99], signed, "input ids has the id 40 at position [1, 1]", 40),
        ([u32::MAX; 6], signed, "input ids has the id 4294967295 at position [0, 0]", 40),
        // The smaller of two tables counts.
        (ids, [0, 1, 3], "input signed has the id 3 at position [2]", 3),
        (ids, [-4, 1, 2], "input signed has the id -4 at position [0]", 3),
    ];
    for (ids, signed, what, rows) in refused {
        let e = start(&mut session, &ids, &signed).map(|_| ()).unwrap_err();
        assert_eq!((e.code, e.at.as_str()), (Code::Usage, "looked_up"));
        assert_eq!(e.what, format!("{what}, its table has {rows} rows"));
        assert_eq!(e.hint, format!("give ids from 0 to {}", rows - 1));
    }
    answers(&mut session);
    // Doubled on the device, 39 is outside of the table.
    let half = ids_bytes(&[39, 5, 0, 0, 0, 0]);
    let mut first = session.start("twice", &[("ids", of_ids(&half))]).unwrap();
    let doubled = first.keep(&mut session, "twice").unwrap();
    wait(|cx| first.poll(&mut session, cx)).unwrap();
    let signed_bytes = signed_bytes(&signed);
    let inputs =
        [("ids", Given::from(&doubled)), ("signed", Given::from(of_signed(&signed_bytes)))];
    let mut second = session.start("looked_up", &inputs).unwrap();
    let answer = wait(|cx| second.poll(&mut session, cx)).unwrap();
    assert_eq!(answer[0].f32s().unwrap(), expected(&[39, 10, 0, 0, 0, 0], &signed));
}
