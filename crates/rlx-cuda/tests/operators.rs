//! Every kernel in the emulator, or on a card (`RLX_CUDA=1`), against `rlx_core::reference`.

use crate::common::*;
use crate::decoder::decoded;
use crate::step::cache;
use rlx_core::ops::{
    Attention, Binary, Cast, CausalConv1d, Concat, DeltaNet, Epilogue, Gather, GroupedMatMul,
    KvWrite, MatMul, Op, RegionStep, RmsNorm, RopeKvWrite, RopeStyle, Route, Slice, StepFn,
    StepOperand, Unary, Zip,
};
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use rlx_cuda::driver::emulator::Watch;

#[test]
fn operands_repeat_as_rows_columns_and_numbers() {
    let mut rng = Rng(3);
    let x = input(&[3, 5, 7], &rng.floats(105));
    for (f, dims) in [
        (Binary::Add, vec![3u64, 5, 7]),
        (Binary::Sub, vec![7]),
        (Binary::Mul, vec![3, 5, 1]),
        (Binary::Max, vec![1, 1, 1]),
        (Binary::Min, vec![1, 1, 7]),
    ] {
        let n = dims.iter().product::<u64>() as usize;
        agrees(Zip { f }, &[x.clone(), input(&dims, &rng.floats(n))], 1e-7);
    }
    let positive: Vec<f32> = rng.floats(7).iter().map(|x| x.abs() + 0.5).collect();
    agrees(Zip { f: Binary::Div }, &[x.clone(), input(&[7], &positive)], 1e-6);
    // silu(x + row) * (x + row)
    let steps = vec![
        RegionStep {
            f: StepFn::Zip(Binary::Add),
            operands: vec![StepOperand::Input(0), StepOperand::Input(1)],
        },
        RegionStep { f: StepFn::Map(Unary::Silu), operands: vec![StepOperand::Step(0)] },
        RegionStep {
            f: StepFn::Zip(Binary::Mul),
            operands: vec![StepOperand::Step(1), StepOperand::Step(0)],
        },
    ];
    agrees(rlx_core::ops::Region { steps }, &[x, input(&[7], &rng.floats(7))], 1e-6);
}

#[test]
fn rows_of_a_table_are_decoded() {
    let mut rng = Rng(11);
    for dtype in decoded() {
        let k = if dtype.is_block() { 512u64 } else { 67 };
        let table = weight(dtype, &[5, k], random_weights(&mut rng, dtype, 5, k as usize));
        // An id past the end reads the last row.
        let operands = [table, ids(&[4, 0, 2, 9, 2])];
        let op = Op::from(Gather::default());
        let (got, want) = (run_op(&plain_device(), op.clone(), &operands), truth(&op, &operands));
        assert_eq!(got, want, "{dtype}: the bits of the reference");
    }
}

/// A row of x, whose weights are read by 32 elements: groups of lanes that are less than full, several of a block, one,
/// and rows longer than they are; two weights of one type, and of two; the last columns.
#[test]
fn products_of_one_row_come_by_groups_of_lanes() {
    let mut rng = Rng(27);
    let types = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::Block(BlockFormat::Q5_1),
        DType::Block(BlockFormat::Q8_0),
        DType::Block(BlockFormat::Q4K),
        DType::Block(BlockFormat::Q5K),
        DType::Block(BlockFormat::Q6K),
        DType::Block(BlockFormat::Iq4Xs),
    ];
    for (i, dtype) in types.into_iter().enumerate() {
        for (k, n) in [(256u64, 13u64), (2048, 9), (4352, 5), (16_640, 2)] {
            let mut w = |dtype| {
                weight(dtype, &[n, k], random_weights(&mut rng, dtype, n as usize, k as usize))
            };
            let ws = [w(dtype), w(dtype), w(types[(i + 1) % types.len()])];
            // A few results may all be small beside what is summed up for them.
            let tolerance = if n > 2 { 4e-6 } else { 2e-5 };
            let x = input(&[1, k], &rng.floats(k as usize));
            // Small enough that no gate is nearly shut: its exponential would make a sum's last bits large.
            let small: Vec<f32> = rng.floats(k as usize).iter().map(|x| x * 1e-3).collect();
            let norm = weight(DType::F32, &[k], f32_bytes(&small));
            let normed = MatMul { norm: Some(1e-5), ..MatMul::plain() };
            let glu =
                MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..normed.clone() };
            for d in [plain_device(), emulated(64, Watch::Nothing)] {
                let of = |op: &MatMul, ws: &[&Operand]| {
                    let operands: Vec<Operand> =
                        [&x, &norm].into_iter().chain(ws.iter().copied()).cloned().collect();
                    agrees_on(&d, op.clone(), &operands, tolerance);
                };
                of(&normed, &[&ws[0]]);
                of(&glu, &[&ws[0], &ws[1]]);
                of(&glu, &[&ws[0], &ws[2]]);
            }
        }
    }
}

/// A block takes many stages, of several weights one behind the other, and comes round its ring: each is there before
/// it is read, and is read before another takes its place.
#[test]
fn weights_of_one_row_come_as_a_stream() {
    let mut rng = Rng(71);
    let (k, mut of) = (512u64, |dtype: DType, n: u64| {
        weight(dtype, &[n, 512], random_weights(&mut rng, dtype, n as usize, 512))
    });
    let floats = [of(DType::F16, 300), of(DType::F32, 700), of(DType::BF16, 90)];
    let packed =
        [of(DType::Block(BlockFormat::Q6K), 1100), of(DType::Block(BlockFormat::Q4K), 1100)];
    let x = input(&[1, k], &rng.floats(k as usize));
    let norm = weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize)));
    let plain = MatMul { norm: Some(1e-5), ..MatMul::plain() };
    let glu = Epilogue::Glu(Unary::Silu);
    for watch in [Watch::Addresses, Watch::Races] {
        let d = emulated_or_card(watch);
        let on = |op: MatMul, ws: &[&Operand]| {
            let operands = [&x, &norm].into_iter().chain(ws.iter().copied()).cloned();
            agrees_on(&d, op, &operands.collect::<Vec<_>>(), 5e-6);
        };
        on(MatMul { segments: 3, ..plain.clone() }, &[&floats[0], &floats[1], &floats[2]]);
        on(plain.clone(), &[&packed[0]]);
        on(MatMul { segments: 2, epilogue: glu, ..plain.clone() }, &[&packed[0], &packed[1]]);
    }
}

/// Packed weights and digits of x, multiplied as integers: every type that becomes bytes, with and without a norm, a
/// second weight and a residual, in rings of one stage and of several, and rows that fill no stage.
#[test]
fn packed_weights_of_one_row_are_multiplied_as_integers() {
    use BlockFormat::{Q4K, Q5K, Q6K, Q8_0};
    let mut rng = Rng(72);
    let glu = Epilogue::Glu(Unary::Silu);
    let cases = [
        (Q4K, 2048, [150, 150], Watch::Races),
        (Q5K, 2048, [70, 70], Watch::Addresses),
        (Q6K, 2048, [150, 150], Watch::Races),
        (Q6K, 8192, [70, 0], Watch::Addresses),
        (Q8_0, 1024, [130, 130], Watch::Addresses),
        (Q8_0, 8192, [40, 0], Watch::Races),
    ];
    for (format, k, [n, up], watch) in cases {
        let (d, dtype) = (emulated_or_card(watch), DType::Block(format));
        let mut of = |n: u64| {
            weight(dtype, &[n, k], random_weights(&mut rng, dtype, n as usize, k as usize))
        };
        let ws = [of(n), of(up.max(1))];
        let mut numbers = rng.floats(k as usize);
        // A block of zeros, and numbers of very different sizes.
        numbers[..64].fill(0.0);
        numbers[64] = 3e8;
        numbers[128] = 1e-30;
        let x = input(&[1, k], &numbers);
        let norm = weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize)));
        let residual = input(&[1, n], &rng.floats(n as usize));
        agrees_on(&d, MatMul::plain(), &[x.clone(), ws[0].clone()], 2e-6);
        let add = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
        agrees_on(&d, add, &[x.clone(), ws[0].clone(), residual], 2e-6);
        if up > 0 {
            let normed = MatMul { norm: Some(1e-5), ..MatMul::plain() };
            agrees_on(&d, normed.clone(), &[x.clone(), norm.clone(), ws[0].clone()], 2e-6);
            let both = MatMul { segments: 2, epilogue: glu, ..normed };
            agrees_on(&d, both, &[x, norm, ws[0].clone(), ws[1].clone()], 4e-6);
        }
    }
    // Several weights of other types behind one norm, as queries, keys and values are.
    let mut of = |format, n: u64| {
        let dtype = DType::Block(format);
        weight(dtype, &[n, 2048], random_weights(&mut rng, dtype, n as usize, 2048))
    };
    let ws = [of(Q4K, 150), of(Q6K, 40), of(Q8_0, 70)];
    let x = input(&[1, 2048], &rng.floats(2048));
    let norm = weight(DType::F32, &[2048], f32_bytes(&rng.floats(2048)));
    let three = MatMul { segments: 3, norm: Some(1e-5), ..MatMul::plain() };
    let d = emulated_or_card(Watch::Races);
    agrees_on(&d, three, &[x, norm, ws[0].clone(), ws[1].clone(), ws[2].clone()], 2e-6);
}

/// Warps of 64 lanes have no tensor cores that these texts use, and sum tiles themselves.
#[test]
fn products_of_many_rows_need_no_tensor_cores() {
    let (d, mut rng) = (emulated(64, Watch::Nothing), Rng(24));
    for (dtype, k) in
        [(DType::F16, 100u64), (DType::F32, 264), (DType::Block(BlockFormat::Q6K), 512)]
    {
        let ws: Vec<Operand> = (0..2)
            .map(|_| weight(dtype, &[70, k], random_weights(&mut rng, dtype, 70, k as usize)))
            .collect();
        let x = input(&[70, k], &rng.floats(70 * k as usize));
        agrees_on(&d, MatMul::plain(), &[x.clone(), ws[0].clone()], 2e-6);
        let glu = MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..MatMul::plain() };
        agrees_on(&d, glu, &[x, ws[0].clone(), ws[1].clone()], 4e-6);
    }
}

#[test]
fn a_row_turns_and_is_written_as_by_steps_of_their_own() {
    let mut rng = Rng(24);
    let (heads, kv_heads, e) = (3u64, 2u64, 64u64);
    for dtype in CACHES {
        for (style, dims, rows, len, past, done, ring) in [
            (RopeStyle::Half, 64, 1u64, 1u32, 6u32, 0u32, false),
            (RopeStyle::Adjacent, 32, 5, 4, 4, 0, false),
            (RopeStyle::Half, 32, 5, 5, 22, 0, true),
            (RopeStyle::Half, 64, 2, 2, 3, 1, false),
            (RopeStyle::Adjacent, 64, 7, 3, 5, 0, false),
        ] {
            let mut rows_of_heads =
                |n: u64| input(&[rows, n * e], &rng.floats((rows * n * e) as usize));
            let [q, k, v] = [heads, kv_heads, kv_heads].map(&mut rows_of_heads);
            let [keys, values] = [0; 2].map(|_| cache(&mut rng, dtype, kv_heads, 8, e));
            let operands = [q, k, v, table(dims, 1024), keys, values, control(past, len, done)];
            let op = Op::from(RopeKvWrite { style, head_dim: e as usize, ring });
            let (got, want) =
                (run_op(&plain_device(), op.clone(), &operands), truth(&op, &operands));
            let what = format!("{dtype} {} rows {rows} past {past}", style.name());
            let width = (heads * e) as usize;
            let turned = f64s(rows_of(&want[0], len as usize, width));
            assert_close(&what, &floats(rows_of(&got[0], len as usize, width)), &turned, 2e-6);
            for (got, want) in got[1..].iter().zip(&want[1..]) {
                let [got, want] = [got, want].map(|bytes| decode(dtype, bytes));
                let far = got
                    .iter()
                    .zip(&want)
                    .filter(|(a, b)| (**a - **b).abs() > 2e-6 * b.abs().max(1.0));
                // A value that is half of a step may round to either side.
                assert!(far.count() <= 4, "{what}");
            }
        }
    }
}

/// A row's positions are split between blocks, of which the last one joins them.
#[test]
fn attention_of_one_row_is_split_and_joined_in_one_launch() {
    let mut rng = Rng(17);
    for (dtype, e, heads, kv, ring) in [
        (DType::F32, 64u64, 4u64, 2u64, false),
        (DType::F16, 128, 8, 1, false),
        (DType::F16, 64, 8, 2, false),
        (DType::F16, 96, 5, 1, false),
        (CACHES[2], 96, 6, 2, false),
        (DType::F16, 10, 3, 3, true),
        (DType::F32, 300, 2, 1, false),
    ] {
        // One block has all positions, the last split is not full, every split is, a window begins later.
        for (past, window, softcap, sinks) in [
            (0u32, None, None, false),
            (0, None, None, true),
            (63, None, Some(2.0), false),
            (299, None, None, true),
            (319, Some(100u64), None, false),
        ] {
            let window = if ring { window.or(Some(200)) } else { window };
            let causal = Attention::causal(e as usize, 0.3);
            let op = Attention { window, softcap, ring, sinks, ..causal };
            let q = input(&[1, heads * e], &rng.floats((heads * e) as usize));
            let [keys, values] = [0; 2].map(|_| cache(&mut rng, dtype, kv, 320, e));
            let mut operands = vec![q, keys, values, control(past, 1, 0)];
            if sinks {
                let of = f32_bytes(&rng.floats(heads as usize));
                operands.push(weight(DType::F32, &[heads], of));
            }
            let what = format!("{dtype} head {e} past {past} {op:?}");
            let op = Op::from(op);
            let want = truth(&op, &operands);
            for d in [plain_device(), emulated(64, Watch::Nothing)] {
                let got = run_op(&d, op.clone(), &operands);
                assert_close(&what, &floats(&got[0]), &f64s(&want[0]), 5e-6);
            }
        }
    }
}

/// Tiles of 64 and of 128 positions, one and several of them, and rows that fill no block.
#[test]
fn attention_of_many_rows_has_products_of_four_warps() {
    let mut rng = Rng(31);
    for (head, len, past) in [(64usize, 40usize, 0u32), (64, 150, 70), (128, 130, 130)] {
        let causal = Attention::causal(head, -0.1);
        for op in [
            causal.clone(),
            Attention { half: true, scale: 0.1, ..causal.clone() },
            Attention { window: Some(50), ring: true, softcap: Some(2.0), ..causal.clone() },
            Attention { block: Some(32), sinks: true, half: true, ..causal },
        ] {
            let (rows, e) = (len as u64, head as u64);
            let mut operands = vec![
                input(&[rows, 2 * e], &rng.floats(len * 2 * head)),
                cache(&mut rng, DType::F16, 1, 280, e),
                cache(&mut rng, DType::F16, 1, 280, e),
                control(past, len as u32 - 3, 0),
            ];
            if op.sinks {
                operands.push(weight(DType::F32, &[2], f32_bytes(&rng.floats(2))));
            }
            let tolerance = if op.half { 5e-4 } else { 5e-6 };
            let what = format!("{op:?} past {past}");
            let op = Op::from(op);
            let want = truth(&op, &operands);
            let want = f64s(rows_of(&want[0], len - 3, 2 * head));
            let got = run_op(&emulated_or_card(Watch::Nothing), op, &operands);
            let got = floats(rows_of(&got[0], len - 3, 2 * head));
            assert_close(&what, &got, &want, tolerance);
        }
    }
}

#[test]
fn elements_are_copied_along_any_axis() {
    let mut rng = Rng(20);
    let x = input(&[3, 8, 5], &rng.floats(120));
    for (axis, start, len, step) in
        [(1usize, 1u64, 3u64, 2i64), (2, 4, 5, -1), (0, 2, 2, -1), (1, 7, 4, -2)]
    {
        let op = Slice { axis, start: start.into(), len: len.into(), step };
        agrees(op, std::slice::from_ref(&x), 0.0);
    }
    let other = input(&[3, 2, 5], &rng.floats(30));
    agrees(Concat { axis: 1 }, &[x.clone(), other, x], 0.0);
}

#[test]
fn kernels_stay_within_their_memory_and_have_no_races() {
    let mut rng = Rng(30);
    for (warp, watch) in [(32, Watch::Addresses), (32, Watch::Races), (64, Watch::Races)] {
        let d = emulated(warp, watch);
        let on = |op: Op, operands: &[Operand]| agrees_on(&d, op, operands, 5e-6);
        let q4 = DType::Block(BlockFormat::Q4K);
        let w = weight(q4, &[70, 256], random_weights(&mut rng, q4, 70, 256));
        for rows in [2u64, 70] {
            let x = input(&[rows, 256], &rng.floats(256 * rows as usize));
            on(MatMul::plain().into(), &[x, w.clone()]);
        }
        let x = input(&[3, 257], &rng.floats(771));
        on(
            RmsNorm { eps: 1e-5 }.into(),
            &[x, weight(DType::F32, &[257], f32_bytes(&rng.floats(257)))],
        );
        let operands = [
            input(&[3, 128], &rng.floats(384)),
            cache(&mut rng, DType::F16, 1, 40, 64),
            cache(&mut rng, DType::F16, 1, 40, 64),
            control(30, 3, 0),
        ];
        on(Attention::causal(64, 0.3).into(), &operands);
        let x = input(&[2, 64], &rng.floats(128));
        let q8 = cache(&mut rng, DType::Block(BlockFormat::Q8_0), 1, 8, 64);
        run_op(&d, KvWrite { ring: false }, &[q8, x, control(3, 2, 0)]);
        let operands = [
            input(&[1, 128], &rng.floats(128)),
            cache(&mut rng, DType::F16, 1, 70, 64),
            cache(&mut rng, DType::F16, 1, 70, 64),
            control(69, 1, 0),
        ];
        on(Attention::causal(64, 0.3).into(), &operands);
        let route = Route { groups: 4, top_groups: 2, group_sum: 2, ..Route::softmax(3) };
        on(route.into(), &[input(&[2, 160], &rng.floats(320))]);
        let bank = weight(q4, &[2, 5, 256], random_weights(&mut rng, q4, 10, 256));
        let ids =
            Operand { ty: Type::tensor(DType::U32, Shape::of(&[2, 2])), ..ids(&[1, 0, 0, 1]) };
        let shares = input(&[2, 2], &rng.floats(4));
        let x = input(&[2, 2, 256], &rng.floats(1024));
        on(GroupedMatMul::sum().into(), &[x, bank, ids, shares]);
        let net = DeltaNet { key_heads: 1, state_size: 40, eps: 1e-6, tiled: false };
        let mut some =
            |dims: &[u64]| input(dims, &rng.floats(dims.iter().product::<u64>() as usize));
        let matrices = state(DType::F32, &[2, 40, 33], some(&[2, 40, 33]).bytes);
        let ctl = || control(0, 3, 0);
        let operands = [
            some(&[3, 80 + 66]),
            some(&[3, 2]),
            some(&[3, 2]),
            some(&[2]),
            some(&[2]),
            matrices,
            ctl(),
        ];
        on(net.into(), &operands);
        let past = state(DType::F32, &[3, 9], some(&[3, 9]).bytes);
        on(CausalConv1d::default().into(), &[some(&[3, 9]), some(&[9, 4]), past, ctl()]);
    }
}

#[test]
fn what_no_kernel_takes_is_refused_by_name() {
    let target = rlx_cuda::target();
    let f64s = Type::tensor(DType::F64, Shape::of(&[2, 4]));
    let why = target.claims(&Op::from(RmsNorm { eps: 1e-5 }), &[&f64s, &f64s]).unwrap_err();
    assert_eq!(why, "its kernel takes no f64 as operand 0");
    let complex = Type::tensor(DType::Scalar(rlx_core::types::Scalar::C64), Shape::of(&[2]));
    let why = target.claims(&Op::from(Cast { to: DType::F32 }), &[&complex]).unwrap_err();
    assert_eq!(why, "its kernel computes with no c64");
    let x = Type::tensor(DType::F32, Shape::of(&[2, 256]));
    let w = Type::tensor(DType::Block(BlockFormat::Q8_1), Shape::of(&[4, 256]));
    let why = target.claims(&Op::from(MatMul::plain()), &[&x, &w]).unwrap_err();
    assert_eq!(why, "it reads no q8_1");
}
