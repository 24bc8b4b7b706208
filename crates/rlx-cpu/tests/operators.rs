//! Every operator at every SIMD level, with one worker and with three, against the reference.

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::types::{BlockFormat as B, DType, Shape, Type};

/// The first few of a list of sizes under Miri, which is a thousand times slower; else all.
fn sizes<T>(all: &[T], under_miri: usize) -> &[T] {
    if cfg!(miri) { &all[..under_miri] } else { all }
}

#[test]
fn matmul_of_f32_rows_is_the_references_for_every_weight_type() {
    let mut random = Random(1);
    for dtype in weight_types() {
        let k = if dtype.is_block() { 512 } else { 77 };
        let k = if cfg!(miri) { k / 8 } else { k };
        for &(m, n) in sizes(&[(1, 5), (5, 16), (1, 1), (1, 37), (2, 3), (33, 19)], 1) {
            let x = f32s(&[m, k], &random.floats((m * k) as usize));
            let w = random.packed(dtype, [n, k]);
            // Sums of 512 terms that cancel.
            check(MatMul::plain(), &[x, w], 1e-5, &format!("{dtype} {m}x{n}"));
        }
    }
}

#[test]
fn integer_products_are_those_of_the_decoded_blocks() {
    let mut random = Random(2);
    for (dtype, format) in integer_products() {
        let all = [
            (1, 17, 1),
            (5, 16, 1),
            (1, 1, 1),
            (1, 5, 3),
            (1, 67, 2),
            (2, 35, 1),
            (5, 16, 2),
            (33, 19, 1),
        ];
        for &(m, n, blocks) in sizes(&all, 1) {
            let k = blocks * dtype.block_elements() as u64;
            let x = quantized(format, [m, k], &random.floats((m * k) as usize));
            let w = random.packed(dtype, [n, k]);
            // Sums of a run are exact; scales of x join them, and minima are taken away, in f32, run by run.
            check(
                MatMul::plain(),
                &[x, w],
                5e-6,
                &format!("{dtype} {} {m}x{n}x{k}", format.name()),
            );
        }
    }
}

#[test]
fn extreme_payloads_do_not_saturate() {
    // All bits set, all clear, and q8_0's -128, against activations of +-127.
    for (dtype, format) in integer_products() {
        for fill in [0u8, 0x7f, 0x80, 0xff] {
            let mut w = Random(3).packed(dtype, [17, 512]);
            let DType::Block(kind) = dtype else { continue };
            let at = scale_bytes(kind);
            // The scales of formats that have no f16 of their own stand where these bytes would go.
            let keep = |i: usize| match kind {
                B::Mxfp4 => i == 0,
                B::Nvfp4 => i < 4,
                B::Iq1M => i >= 48,
                _ => at.iter().any(|a| i == *a || i == a + 1),
            };
            for block in w.bytes.chunks_exact_mut(dtype.block_bytes()) {
                for (i, b) in block.iter_mut().enumerate().filter(|(i, _)| !keep(*i)) {
                    *b = if i % 7 == 0 { !fill } else { fill };
                }
            }
            for sign in [1.0, -1.0] {
                let x = quantized(format, [1, 512], &[sign; 512]);
                let what = format!("{dtype} {fill:#x}");
                check(MatMul::plain(), &[x, w.clone()], 2e-6, &what);
            }
        }
    }
}

/// Rows of `q15_0` of which a few blocks have low parts, other ones in each row.
fn mixed(m: u64, k: u64, random: &mut Random) -> Value {
    let mut x = random.floats((m * k) as usize);
    for (i, x) in x.iter_mut().enumerate() {
        let (row, block) = (i as u64 / k, i as u64 % k / 32);
        *x *= if (block + row / 3) % 8 == 5 { 8.0 } else { 1.0 };
    }
    let op = Op::from(QuantizeRows { only_large: true, ..QuantizeRows::to(B::Q15_0) });
    let bytes = oracle(&op, &[f32s(&[m, k], &x)]).remove(0);
    let has_low = |block: &&[u8; 68]| block[36..] != [0; 32];
    let blocks = bytes.as_chunks::<68>().0;
    let low = blocks.iter().filter(has_low).count();
    assert!(0 < low && low < blocks.len() / 2, "{low} of {} blocks", blocks.len());
    Value::new(Type::tensor(DType::Block(B::Q15_0), Shape::of(&[m, k])), bytes)
}

#[test]
fn low_parts_that_are_left_out_count_as_zeros() {
    let mut random = Random(23);
    for dtype in weight_types() {
        for &m in sizes(&[1u64, 4, 7, 13], 2) {
            let x = mixed(m, 512, &mut random);
            let what = format!("{dtype}, {m} rows");
            check(MatMul::plain(), &[x, random.packed(dtype, [35, 512])], 2e-6, &what);
        }
    }
}

#[test]
fn segments_of_mixed_types_biases_and_every_epilogue() {
    let mut random = Random(4);
    let (q4, q6) = (DType::Block(B::Q4K), DType::Block(B::Q6K));
    for m in [1, 6] {
        for blocks in [None, Some(B::Q8_0), Some(B::Q15_0), Some(B::Q8K)] {
            let floats = random.floats((m * 256) as usize);
            let x = match blocks {
                Some(format) => quantized(format, [m, 256], &floats),
                None => f32s(&[m, 256], &floats),
            };
            let rows = |n: u64, random: &mut Random| f32s(&[n], &random.floats(n as usize));
            let op = MatMul { segments: 3, bias: true, ..MatMul::plain() };
            let operands = [
                x.clone(),
                random.packed(q4, [40, 256]),
                random.packed(DType::F32, [24, 256]),
                random.packed(q6, [17, 256]),
                rows(40, &mut random).weight(),
                rows(24, &mut random).weight(),
                rows(17, &mut random).weight(),
            ];
            check(op, &operands, 2e-6, "segments");
            let residual = f32s(&[m, 40], &random.floats((m * 40) as usize));
            let op = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
            check(op, &[x.clone(), random.packed(q6, [40, 256]), residual], 2e-6, "add");
            for f in [Unary::Silu, Unary::Gelu, Unary::Relu] {
                let op = MatMul { epilogue: Epilogue::Map(f), ..MatMul::plain() };
                check(op, &[x.clone(), random.packed(q4, [19, 256])], 2e-6, f.name());
                let op = MatMul { segments: 2, epilogue: Epilogue::Glu(f), ..MatMul::plain() };
                let (a, b) = (random.packed(q4, [70, 256]), random.packed(q4, [70, 256]));
                check(op, &[x.clone(), a, b], 4e-6, f.name());
            }
            if blocks.is_none() {
                let op = MatMul { norm: Some(1e-5), ..MatMul::plain() };
                let norm = f32s(&[256], &random.floats(256)).weight();
                check(op, &[x.clone(), norm, random.packed(q4, [33, 256])], 2e-6, "norm");
            }
        }
    }
}

#[test]
fn gather_decodes_to_the_references_bits() {
    let mut random = Random(5);
    for dtype in weight_types() {
        let table = random.packed(dtype, [7, 512]);
        let operands = [table, u32s(&[5], &[0, 6, 3, 3, 900])];
        check(Gather::default(), &operands, 0.0, dtype.name());
    }
}

/// Type, bytes and values of ggml's recorded blocks: zero, subnormal, largest and negative scales, every
/// entry of every codebook.
fn recorded_blocks() -> Vec<(DType, Vec<u8>, Vec<f32>)> {
    let file = crate::gunzip::gunzip("ggml_quants.safetensors");
    let n = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let header = String::from_utf8(file[8..8 + n].to_vec()).unwrap();
    let tensor = |name: &str| {
        let entry = header.split(&format!("\"{name}\":")).nth(1).unwrap();
        let list = entry.split("\"data_offsets\":[").nth(1).unwrap();
        let mut ends =
            list.split(']').next().unwrap().split(',').map(|n| n.trim().parse::<usize>());
        let (a, b) = (ends.next().unwrap().unwrap(), ends.next().unwrap().unwrap());
        file[8 + n + a..8 + n + b].to_vec()
    };
    let types = weight_types().into_iter().filter(|d| *d != DType::F32);
    types
        .map(|dtype| {
            let name = match dtype {
                DType::Block(b) => b.name().to_uppercase(),
                other => other.name().to_uppercase(),
            };
            (dtype, tensor(&format!("{name}.bytes")), to_f32s(&tensor(&format!("{name}.f32"))))
        })
        .collect()
}

#[test]
fn recorded_blocks_decode_to_their_recorded_bits() {
    for (dtype, bytes, expected) in recorded_blocks() {
        let dims = [1, expected.len() as u64];
        let table = Value::new(Type::tensor(dtype, Shape::of(&dims)), bytes).weight();
        for device in devices() {
            let got =
                run_op(&device, &Gather::default().into(), &[table.clone(), u32s(&[1], &[0])]);
            for (i, (g, e)) in to_f32s(&got[0]).iter().zip(&expected).enumerate() {
                let same = g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan());
                assert!(same, "{dtype} element {i} is {g}, expected {e}");
            }
        }
    }
}

#[test]
fn a_product_with_a_single_one_is_a_recorded_element_at_every_level() {
    for (dtype, bytes, expected) in recorded_blocks() {
        let DType::Block(_) = dtype else { continue };
        let k = dtype.block_elements();
        let n = expected.len() / k;
        let w = Value::new(Type::tensor(dtype, Shape::of(&[n as u64, k as u64])), bytes).weight();
        // Every element once: a row of x for each. And the same from blocks of integers.
        let mut x = vec![0.0; k * k];
        (0..k).for_each(|i| x[i * k + i] = 1.0);
        let dims = [k as u64, k as u64];
        let [int8, int16] = INTEGERS.map(|format| quantized(format, dims, &x));
        for x in [f32s(&dims, &x), int8, int16] {
            for device in devices() {
                let y =
                    to_f32s(&run_op(&device, &MatMul::plain().into(), &[x.clone(), w.clone()])[0]);
                for (row, block) in expected.chunks_exact(k).enumerate() {
                    // What is not finite spoils its whole row's products with zeros.
                    if block.iter().any(|e| !e.is_finite()) {
                        continue;
                    }
                    let most = block.iter().fold(0.0f32, |m, e| m.max(e.abs()));
                    for (i, e) in block.iter().enumerate() {
                        let (g, name) = (y[i * n + row], device.info().adapter);
                        // Int8 ones are 127 / 127 in f16 or f32; a minimum is taken away in f32.
                        let bound = 5e-4 * e.abs() + 1e-6 * most + f32::MIN_POSITIVE;
                        assert!(
                            (g - e).abs() <= bound,
                            "{dtype} block {row}, {i}: {g}, not {e}, {name}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn quantized_rows_have_the_references_bits() {
    let mut random = Random(6);
    let mixed = QuantizeRows { only_large: true, ..QuantizeRows::to(B::Q15_0) };
    let whole = [B::Q8_0, B::Q15_0, B::Q8K].map(QuantizeRows::to);
    for op in whole.into_iter().chain([mixed]) {
        let (format, k) = (op.format, if op.format == B::Q8K { 768u64 } else { 192 });
        let op = Op::from(op);
        for &m in sizes(&[1u64, 5], 1) {
            let n = (m * k) as usize;
            let mut halves = random.floats(n);
            halves.iter_mut().for_each(|x| *x = (*x * 127.0).trunc() + 0.5);
            // A block whose scale is 1: every half is a tie.
            halves.iter_mut().step_by(format.elements()).for_each(|x| *x = -127.0);
            let tiny: Vec<f32> = random.floats(n).iter().map(|x| x * 1e-39).collect();
            let mut twice = vec![0.25; n];
            (twice[3], twice[5], twice[40]) = (2.0, -2.0, 2.0);
            // Of a row's blocks the third alone is large.
            let mut uneven = random.floats(n);
            uneven
                .iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x *= if i as u64 % k / 32 == 2 { 8.0 } else { 1.0 });
            for x in [random.floats(n), halves, tiny, twice, uneven, vec![0.0; n]] {
                let x = f32s(&[m, k], &x);
                let expected = oracle(&op, core::slice::from_ref(&x));
                for device in devices() {
                    let got = run_op(&device, &op, core::slice::from_ref(&x));
                    assert_eq!(got, expected, "{} {m} {}", format.name(), device.info().adapter);
                }
            }
        }
    }
}

#[test]
fn norms_maps_and_zips() {
    let mut random = Random(7);
    for &(m, d) in sizes(&[(1, 1), (1, 7), (3, 8), (5, 100), (33, 257)], 3) {
        let x = f32s(&[m, d], &random.floats((m * d) as usize));
        let y = f32s(&[m, d], &random.floats((m * d) as usize));
        let w = f32s(&[d], &random.floats(d as usize)).weight();
        check(RmsNorm { eps: 1e-5 }, &[x.clone(), w.clone()], 1e-6, "");
        let positive: Vec<f32> =
            random.floats((m * d) as usize).iter().map(|x| x.abs() + 0.125).collect();
        let positive = f32s(&[m, d], &positive);
        for (f, name) in Unary::ALL {
            let x = match f {
                Unary::Log | Unary::Sqrt | Unary::Rsqrt => &positive,
                _ => &x,
            };
            check(Map { f }, core::slice::from_ref(x), 4e-7, name);
        }
        for (f, name) in Binary::ALL {
            let x = if f == Binary::Pow { &positive } else { &x };
            check(Zip { f }, &[x.clone(), y.clone()], 0.0, name);
            check(Zip { f }, &[x.clone(), w.clone()], 0.0, name);
        }
    }
}

#[test]
fn exp_is_within_2_ulp_and_keeps_its_ends() {
    let mut xs: Vec<f32> = (-10_400..8_872).map(|i| i as f32 * 0.01).collect();
    xs.extend([0.0, -0.0, 1e-30, f32::NEG_INFINITY, -200.0]);
    let x = f32s(&[1, xs.len() as u64], &xs);
    for device in devices() {
        let got = run_op(&device, &Map { f: Unary::Exp }.into(), core::slice::from_ref(&x));
        for (x, y) in xs.iter().zip(to_f32s(&got[0])) {
            let exact = f64::from(*x).exp();
            let ulp = f64::from((exact as f32).next_up() - exact as f32);
            assert!((f64::from(y) - exact).abs() <= 2.0 * ulp, "exp({x}) is {y}, not {exact}");
        }
    }
    let ends = [f32::INFINITY, 89.0, 88.8, f32::NAN, -105.0];
    let x = f32s(&[1, 5], &ends);
    for device in devices() {
        let y = run_op(&device, &Map { f: Unary::Exp }.into(), core::slice::from_ref(&x));
        let y = to_f32s(&y[0]);
        assert_eq!((y[0], y[1], y[2], y[4]), (f32::INFINITY, f32::INFINITY, f32::INFINITY, 0.0));
        assert!(y[3].is_nan());
    }
}

#[test]
fn last_rows_are_taken_from_the_real_ones() {
    let x: Vec<f32> = (0..5 * 9).map(|i| i as f32).collect();
    for (rows, len) in [(1u64, 1), (1, 3), (1, 5), (2, 4), (3, 2), (5, 5)] {
        let op = TakeRows { rows: rows.into() };
        let operands = [f32s(&[5, 9], &x), control(7, len, 0)];
        check(op, &operands, 0.0, &format!("{rows} of {len}"));
    }
}

/// Parameters with the mask behind them; without one, all tokens may be chosen.
fn masked(params: &rlx_core::sample::SampleParams, mask: &[u32]) -> Vec<u32> {
    let mut words = params.to_words().to_vec();
    words[rlx_core::sample::params::MASKED] = u32::from(!mask.is_empty());
    words.extend(if mask.is_empty() { &[0; 16] } else { mask });
    words
}

/// By hand: of logits 4, 3.5, 2 and -1 the repetition penalty takes the largest, which the prompt has,
/// down to 3.2; frequency and presence take the next, which was generated twice, to 3.5 / 1.25 - 1.25.
/// So the third would be the best, were the first not still above it.
#[test]
fn penalties_count_what_was_said() {
    use rlx_core::sample::control::RUNNING;
    use rlx_core::sample::{Control, IN_PROMPT, SampleParams};
    let params = SampleParams {
        repetition_penalty: 1.25,
        frequency_penalty: 0.5,
        presence_penalty: 0.25,
        ..SampleParams::default()
    };
    let logits = [-9.0f32, 4.0, 3.5, 2.0, -1.0];
    // Of what is 0 nothing was said; counts above the prompt's bit are of generated tokens.
    for (counts, id) in [
        ([0; 5], 1u32),                   // 4
        ([0, IN_PROMPT, 0, 0, 0], 2),     // 3.2 is below 3.5
        ([0, IN_PROMPT, 2, 0, 0], 1),     // 3.2 is above 1.55 and 2
        ([0, 1, 2, 0, 0], 1),             // 3.2 - 0.75 is above 1.55 and 2
        ([0, IN_PROMPT | 3, 2, 0, 0], 3), // 3.2 - 1.75 and 1.55 are below 2
        ([0, 3, 2, IN_PROMPT, 0], 3),     // 1.45 and 1.55 are below 1.6
        ([0, 9, 9, 9, IN_PROMPT], 4),     // -1.25 is above what nine times leave
    ] {
        let op = Op::from(Sample);
        let operands = [
            f32s(&[1, 5], &logits),
            state(u32s(&[33], &masked(&params, &[])[..33])),
            state(u32s(&[5], &counts)),
            control(3, 1, 0),
        ];
        let mut counted = counts;
        counted[id as usize] += 1;
        for device in devices() {
            let got = run_op(&device, &op, &operands);
            let words = |bytes: &[u8]| -> Vec<u32> {
                bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
            };
            let what = format!("{counts:x?}, {}", device.info().adapter);
            assert_eq!(words(&got[0]), counted, "{what}");
            let control = Control::from_words(&words(&got[1]).try_into().unwrap());
            assert_eq!((control.token, control.past, control.done), (id, 4, RUNNING), "{what}");
        }
    }
}

#[test]
fn sampling_is_the_references() {
    use rlx_core::sample::{IN_PROMPT, SampleParams};
    let mut random = Random(11);
    let logits: Vec<f32> = random.floats(500).iter().map(|x| x * 8.0).collect();
    let counts: Vec<u32> =
        (0..500).map(|i| (if i % 3 == 0 { IN_PROMPT } else { 0 }) | (i % 7 / 4)).collect();
    // Every fifth token alone, then all.
    let mask: Vec<u32> = (0..16)
        .map(|word| (0..32).map(|bit| u32::from((32 * word + bit) % 5 == 0) << bit).sum())
        .collect();
    for (temperature, mask) in [(0.0, &mask[..]), (0.8, &mask), (0.0, &[]), (0.8, &[])] {
        let penalised = SampleParams {
            temperature,
            repetition_penalty: 1.1,
            frequency_penalty: 0.3,
            presence_penalty: -0.2,
            seed: 5,
            ..SampleParams::default()
        };
        let op = Op::from(Sample);
        let operands = [
            f32s(&[1, 500], &logits),
            state(u32s(&[48], &masked(&penalised, mask))),
            state(u32s(&[500], &counts)),
            control(3, 1, 0),
        ];
        let expected = oracle(&op, &operands);
        if !mask.is_empty() {
            assert_eq!(expected[1][8] % 5, 0, "the mask");
        }
        for device in devices() {
            assert_eq!(run_op(&device, &op, &operands), expected);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    let mut random = Random(12);
    let x = f32s(&[3, 512], &random.floats(3 * 512));
    let w = random.packed(DType::Block(B::Q5K), [101, 512]);
    let op = Op::from(MatMul::plain());
    let devices = devices();
    for pair in devices.chunks(2) {
        let operands = [x.clone(), w.clone()];
        assert_eq!(run_op(&pair[0], &op, &operands), run_op(&pair[1], &op, &operands));
    }
}
