//! Operators that repeat and move elements, on random shapes, against index arithmetic written
//! here: an element's place is computed from its index, one axis after another.

use rlx_core::ops::{
    Binary, Compare, Comparison, Concat, Expand, Op, Pad, PadMode, Reduce, Reduction, Reverse,
    Roll, Select, Slice, Transpose, Zip,
};
use rlx_core::reference::{View, run};
use rlx_core::types::{DType, Shape, Type};

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) as usize) % n
    }

    /// 0 to 4 axes of 0 to 4 elements; 0 is rare.
    fn dims(&mut self) -> Vec<usize> {
        let rank = self.below(5);
        (0..rank)
            .map(|_| [1, 2, 3, 4, 2, 3, 1, if self.below(3) == 0 { 0 } else { 2 }][self.below(8)])
            .collect()
    }

    fn tensor(&mut self, dims: &[usize]) -> Tensor {
        let n = dims.iter().product();
        Tensor { dims: dims.to_vec(), x: (0..n).map(|_| self.below(7) as f32 - 3.0).collect() }
    }

    /// `dims` with some axes 1 and some leading ones gone: it repeats to `dims`.
    fn repeats_to(&mut self, dims: &[usize]) -> Tensor {
        let gone = self.below(dims.len() + 1);
        let own: Vec<usize> =
            dims[gone..].iter().map(|&n| if self.below(3) == 0 { 1 } else { n }).collect();
        self.tensor(&own)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Tensor {
    dims: Vec<usize>,
    x: Vec<f32>,
}

impl Tensor {
    /// The tensor whose element of each index is `f` of it.
    fn of(dims: &[usize], f: impl Fn(&[usize]) -> f32) -> Tensor {
        let n: usize = dims.iter().product();
        let x = (0..n).map(|flat| f(&index(dims, flat))).collect();
        Tensor { dims: dims.to_vec(), x }
    }

    fn at(&self, index: &[usize]) -> f32 {
        assert_eq!(index.len(), self.dims.len());
        let flat = index.iter().zip(&self.dims).fold(0, |flat, (i, n)| {
            assert!(i < n, "{index:?} of {:?}", self.dims);
            flat * n + i
        });
        self.x[flat]
    }

    /// The element that repeats at an index of a larger shape.
    fn repeated(&self, index: &[usize]) -> f32 {
        let own = &index[index.len() - self.dims.len()..];
        let own: Vec<usize> =
            own.iter().zip(&self.dims).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
        self.at(&own)
    }

    fn ty(&self, dtype: DType) -> Type {
        Type::tensor(dtype, Shape::of(&self.dims.iter().map(|&n| n as u64).collect::<Vec<_>>()))
    }
}

/// The index of element `flat`.
fn index(dims: &[usize], mut flat: usize) -> Vec<usize> {
    let mut out = vec![0; dims.len()];
    for (i, n) in dims.iter().enumerate().rev() {
        out[i] = flat % n;
        flat /= n;
    }
    out
}

fn bytes(x: &[f32], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::F16 => x.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect(),
        DType::I64 => x.iter().flat_map(|v| (*v as i64).to_le_bytes()).collect(),
        _ => x.iter().map(|v| u8::from(*v != 0.0)).collect(),
    }
}

/// Runs an operator in f32, f16 and i64, whose small integers are the same numbers, and compares.
fn check(op: impl Into<Op>, operands: &[&Tensor], expected: &Tensor) {
    let op = op.into();
    for dtype in [DType::F32, DType::F16, DType::I64] {
        let dtypes = vec![dtype; operands.len()];
        check_in(&op, operands, &dtypes, expected, dtype);
    }
}

fn check_in(op: &Op, operands: &[&Tensor], dtypes: &[DType], expected: &Tensor, to: DType) {
    let types: Vec<Type> = operands.iter().zip(dtypes).map(|(t, d)| t.ty(*d)).collect();
    let data: Vec<Vec<u8>> = operands.iter().zip(dtypes).map(|(t, d)| bytes(&t.x, *d)).collect();
    let refs: Vec<&Type> = types.iter().collect();
    let results = op.infer(&refs).unwrap_or_else(|e| panic!("{op:?} {types:?}: {e}"));
    assert_eq!(results, [expected.ty(to)], "{op:?} {types:?}");
    let views: Vec<View<'_>> = types.iter().zip(&data).map(|(t, b)| View::new(t, b)).collect();
    let got = run(op, &views).unwrap_or_else(|e| panic!("{op:?} {types:?}: {e}"));
    assert!(got[0] == bytes(&expected.x, to), "{op:?} {operands:?}, expected {expected:?}");
}

#[test]
fn operands_repeat_to_one_shape() {
    let mut r = Random(1);
    for _ in 0..400 {
        let dims = r.dims();
        // One of them has every axis, so that the shape is known.
        let (a, b, c) = (r.tensor(&dims), r.repeats_to(&dims), r.repeats_to(&dims));
        let sub = Tensor::of(&dims, |i| a.repeated(i) - b.repeated(i));
        check(Zip { f: Binary::Sub }, &[&a, &b], &sub);
        let sub = Tensor::of(&dims, |i| b.repeated(i) - a.repeated(i));
        check(Zip { f: Binary::Sub }, &[&b, &a], &sub);
        let less = Tensor::of(&dims, |i| if b.repeated(i) < a.at(i) { 1.0 } else { 0.0 });
        let op = Op::from(Compare { f: Comparison::Lt });
        check_in(&op, &[&b, &a], &[DType::I64; 2], &less, DType::BOOL);
        check_in(&op, &[&b, &a], &[DType::F32; 2], &less, DType::BOOL);
        let chosen =
            Tensor::of(&dims, |i| if c.repeated(i) != 0.0 { b.repeated(i) } else { a.at(i) });
        for dtype in [DType::F16, DType::I64] {
            let dtypes = [DType::BOOL, dtype, dtype];
            check_in(&Op::from(Select), &[&c, &b, &a], &dtypes, &chosen, dtype);
        }
        let expand = Expand { dims: a.ty(DType::F32).shape };
        check(expand, &[&b], &Tensor::of(&dims, |i| b.repeated(i)));
    }
}

#[test]
fn slices_start_anywhere_and_run_either_way() {
    let mut r = Random(2);
    let mut taken = 0;
    for _ in 0..2000 {
        let dims = r.dims();
        if dims.is_empty() {
            continue;
        }
        let (x, axis) = (r.tensor(&dims), r.below(dims.len()));
        let (n, step) = (dims[axis] as i64, r.below(7) as i64 - 3);
        let (start, len) = (r.below(5) as i64, r.below(5) as i64);
        let op = Slice { axis, start: (start as u64).into(), len: (len as u64).into(), step };
        let indices: Vec<i64> = (0..len).map(|i| start + i * step).collect();
        let fits = step != 0 && start <= n && indices.iter().all(|i| (0..n).contains(i));
        if !fits {
            assert!(Op::from(op).infer(&[&x.ty(DType::F32)]).is_err(), "{dims:?} {indices:?}");
            continue;
        }
        taken += 1;
        let mut to = dims.clone();
        to[axis] = len as usize;
        let expected = Tensor::of(&to, |i| {
            let mut from = i.to_vec();
            from[axis] = indices[i[axis]] as usize;
            x.at(&from)
        });
        check(op, &[&x], &expected);
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn axes_change_places_and_turn() {
    let mut r = Random(3);
    for _ in 0..400 {
        let dims = r.dims();
        let x = r.tensor(&dims);
        let mut perm: Vec<usize> = (0..dims.len()).collect();
        for i in (1..perm.len()).rev() {
            perm.swap(i, r.below(i + 1));
        }
        let to: Vec<usize> = perm.iter().map(|&axis| dims[axis]).collect();
        let expected = Tensor::of(&to, |i| {
            let mut from = vec![0; i.len()];
            perm.iter().zip(i).for_each(|(&axis, &i)| from[axis] = i);
            x.at(&from)
        });
        check(Transpose { perm }, &[&x], &expected);

        let axes: Vec<usize> = (0..dims.len()).filter(|_| r.below(2) == 0).collect();
        let shifts: Vec<i64> = axes.iter().map(|_| r.below(13) as i64 - 6).collect();
        let moved = |turn: &dyn Fn(usize, usize, usize) -> usize| {
            Tensor::of(&dims, |i| {
                let mut from = i.to_vec();
                for (k, &axis) in axes.iter().enumerate() {
                    from[axis] = turn(k, i[axis], dims[axis]);
                }
                x.at(&from)
            })
        };
        let rolled = moved(&|k, i, n| (i as i64 - shifts[k]).rem_euclid(n as i64) as usize);
        let reversed = moved(&|_, i, n| n - 1 - i);
        check(Reverse { axes: axes.clone() }, &[&x], &reversed);
        check(Roll { shifts, axes }, &[&x], &rolled);
    }
}

#[test]
fn tensors_follow_each_other() {
    let mut r = Random(4);
    for _ in 0..300 {
        let dims = r.dims();
        if dims.is_empty() {
            continue;
        }
        let axis = r.below(dims.len());
        let operands: Vec<Tensor> = (0..1 + r.below(4))
            .map(|_| {
                let mut own = dims.clone();
                own[axis] = r.below(4);
                r.tensor(&own)
            })
            .collect();
        let mut to = dims.clone();
        to[axis] = operands.iter().map(|t| t.dims[axis]).sum();
        let expected = Tensor::of(&to, |i| {
            let mut from = i.to_vec();
            let mut k = 0;
            while from[axis] >= operands[k].dims[axis] {
                from[axis] -= operands[k].dims[axis];
                k += 1;
            }
            operands[k].at(&from)
        });
        check(Concat { axis }, &operands.iter().collect::<Vec<_>>(), &expected);
    }
}

#[test]
fn padding_continues_every_axis() {
    let mut r = Random(5);
    let mut padded = 0;
    for _ in 0..800 {
        let dims = r.dims();
        let x = r.tensor(&dims);
        let mode =
            [PadMode::Constant(2.0), PadMode::Reflect, PadMode::Replicate, PadMode::Circular]
                [r.below(4)];
        let low: Vec<u64> = dims.iter().map(|_| r.below(3) as u64).collect();
        let high: Vec<u64> = dims.iter().map(|_| r.below(3) as u64).collect();
        let needs = |count: u64| match mode {
            _ if count == 0 => 0,
            PadMode::Constant(_) => 0,
            PadMode::Reflect => count as usize + 1,
            PadMode::Replicate => 1,
            PadMode::Circular => count as usize,
        };
        let fits = dims
            .iter()
            .zip(low.iter().zip(&high))
            .all(|(n, (a, b))| *n >= needs(*a).max(needs(*b)));
        let op = Pad { low: low.clone(), high: high.clone(), mode };
        if !fits {
            assert!(Op::from(op).infer(&[&x.ty(DType::F32)]).is_err(), "{dims:?}");
            continue;
        }
        padded += 1;
        let to: Vec<usize> = dims
            .iter()
            .zip(low.iter().zip(&high))
            .map(|(n, (a, b))| n + (a + b) as usize)
            .collect();
        let expected = Tensor::of(&to, |i| {
            let mut from = Vec::new();
            for (axis, &i) in i.iter().enumerate() {
                // A walk from the first element, one step at a time, with the mode's turns.
                let (n, at) = (dims[axis] as i64, i as i64 - low[axis] as i64);
                from.push(match mode {
                    _ if at >= 0 && at < n => at,
                    PadMode::Constant(_) => return 2.0,
                    PadMode::Reflect => at.abs().min(2 * n - 2 - at.abs()),
                    PadMode::Replicate => at.max(0).min(n - 1),
                    PadMode::Circular => (at + n) % n,
                } as usize);
            }
            x.at(&from)
        });
        check(op, &[&x], &expected);
    }
    assert!(padded > 200, "{padded}");
}

#[test]
fn sums_and_extremes_are_over_every_index_of_the_axes() {
    let mut r = Random(6);
    for _ in 0..400 {
        let dims = r.dims();
        let x = r.tensor(&dims);
        let axes: Vec<usize> = (0..dims.len()).filter(|_| r.below(2) == 0).collect();
        let gone: usize = axes.iter().map(|&axis| dims[axis]).product();
        let keep = r.below(2) == 0;
        let f = [Reduction::Sum, Reduction::Max, Reduction::Min][r.below(3)];
        // Of nothing, extremes differ by type.
        if gone == 0 && f != Reduction::Sum {
            continue;
        }
        let kept: Vec<usize> =
            dims.iter().enumerate().map(|(i, &n)| if axes.contains(&i) { 1 } else { n }).collect();
        let mut expected = Tensor::of(&kept, |to| {
            let all = (0..x.x.len()).filter(|&flat| {
                let from = index(&dims, flat);
                (0..dims.len()).all(|axis| axes.contains(&axis) || from[axis] == to[axis])
            });
            let all = all.map(|flat| x.x[flat]);
            match f {
                Reduction::Max => all.fold(f32::NEG_INFINITY, f32::max),
                Reduction::Min => all.fold(f32::INFINITY, f32::min),
                // Not `sum()`, which is -0 of nothing.
                _ => all.fold(0.0, |a, b| a + b),
            }
        });
        if !keep {
            expected.dims = dims
                .iter()
                .enumerate()
                .filter(|(i, _)| !axes.contains(i))
                .map(|(_, n)| *n)
                .collect();
        }
        check(Reduce { f, axes, keep }, &[&x], &expected);
    }
}
