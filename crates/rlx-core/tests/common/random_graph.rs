//! Random valid graphs over the data operators, with every parameter's bytes: what passes, text IR
//! and pipelines are fuzzed with. A seed gives the same graph everywhere.

use rlx_core::ir::mir::{Graph, Node, ParamKind, ValueId};
use rlx_core::ops::*;
use rlx_core::types::{DType, Dim, Scalar, Shape, Type};
use std::collections::BTreeMap;

/// Elements of a value at most.
const ELEMENTS: u64 = 1024;
/// Axes of a value at most.
const RANK: usize = 4;
/// Regions in regions at most.
const DEPTH: usize = 2;

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const INTS: [DType; 3] = [DType::I32, DType::U32, DType::I64];

/// A generator of numbers that a seed replays.
pub struct Rng(u64);

impl Rng {
    /// One for each seed.
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1);
        (0..4).for_each(|_| {
            rng.below(2);
        });
        rng
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Bytes of a tensor: small numbers, and now and then a zero of either sign, an infinity or a
    /// NaN.
    pub fn bytes(&mut self, ty: &Type) -> Vec<u8> {
        let DType::Scalar(scalar) = ty.dtype else { panic!("{ty} is packed") };
        let n = ty.shape.elements().unwrap();
        (0..n).flat_map(|_| self.element(scalar)).collect()
    }

    fn element(&mut self, scalar: Scalar) -> Vec<u8> {
        let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let x = match self.once_in(8) {
            true => self.pick(&special),
            false => (self.below(4001) as f32 - 2000.0) / 500.0,
        };
        let n = self.below(9) as i32 - 3;
        match scalar {
            Scalar::F64 => f64::from(x).to_le_bytes().into(),
            Scalar::F32 => x.to_le_bytes().into(),
            Scalar::F16 => half::f16::from_f32(x).to_le_bytes().into(),
            Scalar::Bf16 => half::bf16::from_f32(x).to_le_bytes().into(),
            Scalar::I64 => i64::from(n).to_le_bytes().into(),
            Scalar::I32 => n.to_le_bytes().into(),
            Scalar::I16 => (n as i16).to_le_bytes().into(),
            Scalar::I8 => vec![n as u8],
            Scalar::U32 => (n + 3).to_le_bytes().into(),
            Scalar::U8 => vec![(n + 3) as u8],
            Scalar::Bool => vec![(n & 1) as u8],
            Scalar::C64 => [x.to_le_bytes(), x.to_le_bytes()].concat(),
        }
    }
}

/// Types and values by name of a graph's parameters.
pub type Data = BTreeMap<String, Vec<u8>>;

/// 12 to 40 nodes of the outer graph, some of them control flow; the bytes of every parameter.
pub fn random_graph(seed: u64) -> (Graph, Data) {
    let mut rng = Rng::new(seed);
    let nodes = 12 + rng.below(29);
    let mut b = Builder { g: Graph::new("random"), rng: &mut rng, depth: 0, values: Vec::new() };
    for i in 0..2 + b.rng.below(4) {
        let ty = b.ty();
        let kind = b.rng.pick(&[ParamKind::Input, ParamKind::Input, ParamKind::Weight]);
        let v = b.g.param(kind, &format!("p{i}"), ty);
        b.values.push(v);
    }
    b.grow(nodes);
    let returned = 1 + b.rng.below(4);
    for i in 0..returned {
        let v = if i == 0 { *b.values.last().unwrap() } else { b.value() };
        b.g.output(&format!("y{i}"), v);
    }
    let g = b.g;
    let bytes = |p: &rlx_core::ir::mir::Param| (p.name.clone(), rng.bytes(g.ty(p.value)));
    let data = g.params.iter().map(bytes).collect();
    (g, data)
}

/// A graph under construction.
struct Builder<'a> {
    g: Graph,
    rng: &'a mut Rng,
    depth: usize,
    values: Vec<ValueId>,
}

impl Builder<'_> {
    fn grow(&mut self, nodes: usize) {
        for _ in 0..nodes * 8 {
            if self.g.nodes.len() >= nodes {
                return;
            }
            let from = self.g.nodes.len();
            self.some();
            let new: Vec<ValueId> =
                self.g.nodes[from..].iter().flat_map(|n| n.outputs.clone()).collect();
            self.values.extend(new);
        }
    }

    fn shape(&mut self) -> Vec<u64> {
        let rank = self.rng.below(RANK + 1);
        (0..rank).map(|_| self.rng.pick(&[1, 2, 2, 3, 4, 5])).collect()
    }

    fn dtype(&mut self) -> DType {
        match self.rng.below(10) {
            0..5 => DType::F32,
            5 | 6 => self.rng.pick(&FLOATS),
            7 | 8 => self.rng.pick(&INTS),
            _ => DType::BOOL,
        }
    }

    fn ty(&mut self) -> Type {
        let (dtype, dims) = (self.dtype(), self.shape());
        Type::tensor(dtype, Shape::of(&dims))
    }

    /// A value; late ones more often, so that chains form.
    fn value(&mut self) -> ValueId {
        let n = self.values.len();
        let back = self.rng.below(n).min(self.rng.below(n));
        self.values[n - 1 - back]
    }

    fn dims(&self, v: ValueId) -> Vec<u64> {
        self.g.ty(v).shape.static_dims().unwrap()
    }

    fn value_that(&mut self, fits: impl Fn(&Type) -> bool) -> Option<ValueId> {
        let have: Vec<ValueId> =
            self.values.iter().copied().filter(|&v| fits(self.g.ty(v))).collect();
        if have.is_empty() { None } else { Some(self.rng.pick(&have)) }
    }

    /// A value of a type: one there is, or a new constant.
    fn of_type(&mut self, ty: &Type) -> ValueId {
        match self.value_that(|t| t == ty) {
            Some(v) if !self.rng.once_in(4) => v,
            _ => self.constant(ty),
        }
    }

    fn constant(&mut self, ty: &Type) -> ValueId {
        let mut data = self.rng.bytes(ty);
        if self.rng.once_in(2) {
            // The same number everywhere, and often a neutral one.
            let DType::Scalar(scalar) = ty.dtype else { unreachable!() };
            let one = self.rng.pick(&[0.0, -0.0, 1.0, 2.0]);
            let one = match self.rng.once_in(4) {
                true => self.rng.element(scalar),
                false => Constant::scalar(ty.dtype, one).unwrap().data.to_vec(),
            };
            data = one.repeat(ty.shape.elements().unwrap() as usize);
        }
        self.g.push1(Constant { ty: ty.clone(), data: data.into() }, &[], "constant").unwrap()
    }

    /// The operator's results, if its type rule takes the operands and they are not too large.
    fn push(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Option<ValueId> {
        self.push_regions(op, inputs, Vec::new())
    }

    fn push_regions(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
        regions: Vec<Graph>,
    ) -> Option<ValueId> {
        let op = op.into();
        let operands: Vec<&Type> = inputs.iter().map(|&v| self.g.ty(v)).collect();
        let bodies: Vec<Signature> = regions.iter().map(Graph::signature).collect();
        let types = op.infer_regions(&operands, &bodies).ok()?;
        let fits = |t: &Type| {
            t.shape.rank() <= RANK && t.shape.elements().is_ok_and(|n| (1..=ELEMENTS).contains(&n))
        };
        if !types.iter().all(fits) {
            return None;
        }
        let label = format!("n{}", self.g.nodes.len());
        Some(self.g.push_regions(op, inputs, regions, &label).unwrap()[0])
    }

    /// One node, or an idiom of a few that passes look for.
    fn some(&mut self) {
        let x = self.value();
        let dims = self.dims(x);
        let float = self.g.ty(x).dtype.is_float();
        match self.rng.below(34) {
            0..3 if float => _ = self.map(x),
            3..8 => _ = self.pair(x),
            8 => {
                let to = self.rng.pick(&[FLOATS[0], FLOATS[1], INTS[0], INTS[2]]);
                _ = self.push(Cast { to }, &[x]);
            }
            9 if float => _ = self.clamp(x),
            10 => _ = self.select(x),
            11 | 12 => _ = self.movement(x),
            13 => _ = self.reshape(x),
            14 => self.there_and_back(x),
            15 => self.slices(x),
            16 => self.concat_and_slice(x),
            17 => _ = self.expand(x),
            18 if !dims.is_empty() => {
                let f = Reduction::ALL[self.rng.below(5)].0;
                let axes: Vec<usize> = (0..dims.len()).filter(|_| self.rng.once_in(2)).collect();
                let keep = self.rng.once_in(2);
                _ = self.push(Reduce { f, axes, keep }, &[x]);
            }
            19 if !dims.is_empty() => {
                let axis = self.rng.below(dims.len());
                let (flag, k) = (self.rng.once_in(2), 1 + self.rng.below(2) as u64);
                let op: Op = match self.rng.below(6) {
                    0 => Softmax { axis }.into(),
                    1 => CumSum { axis, exclusive: flag }.into(),
                    2 => ArgMax { axis, keep: flag }.into(),
                    3 => ArgMin { axis, keep: flag }.into(),
                    4 => Sort { axis, descending: flag }.into(),
                    _ => TopK { k }.into(),
                };
                _ = self.push(op, &[x]);
            }
            20 if !dims.is_empty() => self.indexing(x),
            21 => {
                let ty = self.ty();
                let axis = self.rng.below(ty.shape.rank().max(1));
                _ = self.push(Iota { dtype: ty.dtype, dims: ty.shape, axis }, &[]);
            }
            22 => {
                let key = self.constant(&Type::tensor(DType::U32, Shape::of(&[4])));
                let dims = Shape::of(&self.shape());
                let op: Op = match self.rng.once_in(2) {
                    true => RandomUniform { dims }.into(),
                    false => RandomNormal { dims }.into(),
                };
                _ = self.push(op, &[key]);
            }
            23 => self.again(),
            24..28 if float => self.chain(x),
            28 | 29 if self.depth < DEPTH => self.branch(),
            30 if self.depth < DEPTH => self.counted_loop(),
            31 if self.depth < DEPTH => self.bounded_loop(),
            32 if self.depth < DEPTH => self.scan(),
            _ => _ = self.neutral(x),
        }
    }

    fn map(&mut self, x: ValueId) -> Option<ValueId> {
        let f = Unary::ALL[self.rng.below(Unary::ALL.len())].0;
        self.push(Map { f }, &[x])
    }

    fn clamp(&mut self, x: ValueId) -> Option<ValueId> {
        let (min, max) = (self.rng.pick(&[-2.0, -0.5, -0.0, 0.0, 0.1]), self.rng.pick(&[0.1, 1.5]));
        self.push(Clamp { min, max }, &[x])
    }

    /// An operand beside `x`: of its shape, one element, its last axis, or whatever broadcasts.
    fn beside(&mut self, x: ValueId) -> ValueId {
        let (ty, dims) = (self.g.ty(x).clone(), self.dims(x));
        let shape = match self.rng.below(4) {
            0 => Shape::of(&[]),
            1 if !dims.is_empty() => Shape::of(&dims[dims.len() - 1..]),
            2 => Shape(ty.shape.0.iter().map(|d| self.either(d.clone(), 1u64.into())).collect()),
            _ => ty.shape,
        };
        self.of_type(&Type::tensor(ty.dtype, shape))
    }

    fn either<T>(&mut self, a: T, b: T) -> T {
        if self.rng.once_in(2) { a } else { b }
    }

    fn pair(&mut self, x: ValueId) -> Option<ValueId> {
        let y = self.beside(x);
        let (a, b) = self.either((x, y), (y, x));
        let dtype = self.g.ty(x).dtype;
        if self.rng.once_in(5) || dtype == DType::BOOL {
            let f = Comparison::ALL[self.rng.below(6)].0;
            return self.push(Compare { f }, &[a, b]);
        }
        let f = Binary::ALL[self.rng.below(Binary::ALL.len())].0;
        if !dtype.is_float() && matches!(f, Binary::Div | Binary::Mod) {
            // By no zero: that is an error.
            let two = Constant::scalar(dtype, 2.0).unwrap();
            let two = self.push(two, &[])?;
            return self.push(Zip { f }, &[x, two]);
        }
        self.push(Zip { f }, &[a, b])
    }

    fn select(&mut self, x: ValueId) -> Option<ValueId> {
        let y = self.beside(x);
        let shape = self.g.ty(x).shape.clone();
        let shape = self.either(shape, Shape::of(&[]));
        let p = self.of_type(&Type::tensor(DType::BOOL, shape));
        let (a, b) = self.either((x, y), (y, x));
        self.push(Select, &[p, a, b])
    }

    /// `x` with a number that changes nothing, or nearly nothing.
    fn neutral(&mut self, x: ValueId) -> Option<ValueId> {
        let ty = self.g.ty(x).clone();
        let n = self.rng.pick(&[0.0, -0.0, 1.0]);
        let one = self.push(Constant::scalar(ty.dtype, n).unwrap(), &[])?;
        let f = self.rng.pick(&[Binary::Add, Binary::Sub, Binary::Mul]);
        let (a, b) = self.either((x, one), (one, x));
        self.push(Zip { f }, &[a, b])
    }

    fn perm(&mut self, rank: usize) -> Vec<usize> {
        let mut perm: Vec<usize> = (0..rank).collect();
        for i in (1..rank).rev() {
            perm.swap(i, self.rng.below(i + 1));
        }
        perm
    }

    fn movement(&mut self, x: ValueId) -> Option<ValueId> {
        let rank = self.dims(x).len();
        let amounts = |rng: &mut Rng| -> Vec<u64> {
            (0..rank).map(|_| rng.below(3).saturating_sub(1) as u64).collect()
        };
        let axes: Vec<usize> = (0..rank).filter(|_| self.rng.once_in(2)).collect();
        let op: Op = match self.rng.below(5) {
            0 | 1 => Transpose { perm: self.perm(rank) }.into(),
            2 => Reverse { axes }.into(),
            3 => {
                let modes = [
                    PadMode::Constant(0.5),
                    PadMode::Reflect,
                    PadMode::Replicate,
                    PadMode::Circular,
                ];
                let (low, high) = (amounts(self.rng), amounts(self.rng));
                Pad { low, high, mode: self.rng.pick(&modes) }.into()
            }
            _ => {
                let shifts = axes.iter().map(|_| self.rng.below(5) as i64 - 2).collect();
                Roll { shifts, axes }.into()
            }
        };
        self.push(op, &[x])
    }

    /// The same elements in another shape: flat, with a unit axis more, or with axes joined.
    fn reshape(&mut self, x: ValueId) -> Option<ValueId> {
        let mut dims = self.dims(x);
        match self.rng.below(4) {
            0 => dims = vec![dims.iter().product()],
            1 if dims.len() < RANK => dims.insert(self.rng.below(dims.len() + 1), 1),
            2 if dims.len() >= 2 => {
                let last = dims.pop().unwrap();
                *dims.last_mut().unwrap() *= last;
            }
            _ => dims.reverse(),
        }
        self.push(Reshape { dims: Shape::of(&dims) }, &[x])
    }

    /// Functions of one tensor, so that movement finds something to pass.
    fn through(&mut self, x: ValueId) -> Option<ValueId> {
        let mut y = x;
        for _ in 0..self.rng.below(3) {
            y = match self.rng.below(3) {
                0 => self.map(y)?,
                1 => self.clamp(y)?,
                _ => self.neutral(y)?,
            };
        }
        Some(y)
    }

    /// A movement, functions, and the movement that undoes the first; or casts to and fro.
    fn there_and_back(&mut self, x: ValueId) {
        let (rank, shape) = (self.dims(x).len(), self.g.ty(x).shape.clone());
        _ = match self.rng.below(3) {
            0 => {
                let perm = self.perm(rank);
                let mut back = vec![0; rank];
                perm.iter().enumerate().for_each(|(i, &axis)| back[axis] = i);
                let y = self.push(Transpose { perm }, &[x]).and_then(|y| self.through(y));
                y.and_then(|y| self.push(Transpose { perm: back }, &[y]))
            }
            1 => {
                let y = self.reshape(x).and_then(|y| self.through(y));
                y.and_then(|y| self.push(Reshape { dims: shape }, &[y]))
            }
            _ => {
                let dtype = self.g.ty(x).dtype;
                let other = self.rng.pick(&[FLOATS[0], FLOATS[1], FLOATS[3], INTS[0], INTS[1]]);
                let y = self.push(Cast { to: other }, &[x]);
                y.and_then(|y| self.push(Cast { to: dtype }, &[y]))
            }
        };
    }

    fn slice(&mut self, x: ValueId, axis: usize) -> Option<ValueId> {
        let n = self.dims(x)[axis] as usize;
        let start = self.rng.below(n);
        let len = if self.rng.once_in(4) { n } else { 1 + self.rng.below(n) };
        let step = self.rng.pick(&[1, 1, 1, 2, -1]);
        let dim = |n: usize| Dim::from(n as u64);
        self.push(Slice { axis, start: dim(start), len: dim(len), step }, &[x])
            .or_else(|| self.push(Slice { axis, start: dim(0), len: dim(n), step: 1 }, &[x]))
    }

    fn slices(&mut self, x: ValueId) {
        let rank = self.dims(x).len();
        if rank > 0 {
            let axis = self.rng.below(rank);
            let y = self.slice(x, axis);
            let axis = if self.rng.once_in(3) { self.rng.below(rank) } else { axis };
            if let Some(y) = y.filter(|_| self.rng.once_in(2)) {
                self.slice(y, axis);
            }
        }
    }

    fn concat_and_slice(&mut self, x: ValueId) {
        let ty = self.g.ty(x).clone();
        if ty.shape.rank() == 0 {
            return;
        }
        let axis = self.rng.below(ty.shape.rank());
        let parts: Vec<ValueId> = (0..self.rng.below(3)).map(|_| self.of_type(&ty)).collect();
        if let Some(y) = self.push(Concat { axis }, &[&[x][..], &parts].concat())
            && self.rng.once_in(2)
        {
            self.slice(y, axis);
        }
    }

    fn expand(&mut self, x: ValueId) -> Option<ValueId> {
        let mut dims = self.dims(x);
        for d in &mut dims {
            if *d == 1 && self.rng.once_in(2) {
                *d = 3;
            }
        }
        if dims.len() < RANK && self.rng.once_in(2) {
            dims.insert(0, self.rng.pick(&[1, 2]));
        }
        self.push(Expand { dims: Shape::of(&dims) }, &[x])
    }

    fn indexing(&mut self, x: ValueId) {
        let dims = self.dims(x);
        let axis = self.rng.below(dims.len());
        let dtype = self.rng.pick(&INTS);
        _ = match self.rng.below(3) {
            0 => {
                let shape = self.rng.pick(&[vec![], vec![2], vec![2, 1]]);
                let ids = self.of_type(&Type::tensor(dtype, Shape::of(&shape)));
                self.push(Gather { axis }, &[x, ids])
            }
            1 => {
                let mut shape = dims;
                shape[axis] = 1 + self.rng.below(3) as u64;
                let ids = self.of_type(&Type::tensor(dtype, Shape::of(&shape)));
                self.push(GatherElements { axis }, &[x, ids])
            }
            _ => {
                let n = 1 + self.rng.below(3) as u64;
                let ids = self.of_type(&Type::tensor(dtype, Shape::of(&[n])));
                let mut shape = dims;
                shape[axis] = n;
                let ty = Type::tensor(self.g.ty(x).dtype, Shape::of(&shape));
                let updates = self.of_type(&ty);
                self.push(ScatterAdd { axis }, &[x, ids, updates])
            }
        };
    }

    /// A node that is there already, a second time.
    fn again(&mut self) {
        let plain = self.g.nodes.iter().filter(|n| n.regions.is_empty());
        let plain: Vec<Node> = plain.cloned().collect();
        if !plain.is_empty() {
            let mut node = self.rng.pick(&plain);
            if node.inputs.len() == 2 && self.rng.once_in(2) {
                node.inputs.reverse();
            }
            if self.may_fail(&node) {
                return;
            }
            _ = self.push(node.op, &node.inputs);
        }
    }

    /// Reversed operands of a division by two.
    fn may_fail(&self, node: &Node) -> bool {
        let Op::Zip(z) = &node.op else { return false };
        !self.g.ty(node.inputs[0]).dtype.is_float() && matches!(z.f, Binary::Div | Binary::Mod)
    }

    /// Elementwise nodes one after another.
    fn chain(&mut self, x: ValueId) {
        let mut y = Some(x);
        for _ in 0..2 + self.rng.below(4) {
            y = y.and_then(|y| match self.rng.below(4) {
                0 => self.map(y),
                1 => self.clamp(y),
                2 => self.select(y),
                _ => self.pair(y),
            });
            y = y.filter(|&y| self.g.ty(y).dtype.is_float());
        }
    }

    /// A body over values of these types; results of the types in `gives`, or one of any.
    fn body(&mut self, name: &str, takes: &[Type], gives: Option<&[Type]>) -> Graph {
        let g = Graph::new(name);
        let mut b = Builder { g, rng: &mut *self.rng, depth: self.depth + 1, values: Vec::new() };
        for (i, ty) in takes.iter().enumerate() {
            let v = b.g.param(ParamKind::Input, &format!("x{i}"), ty.clone());
            b.values.push(v);
        }
        if b.values.is_empty() {
            let v = b.constant(&Type::tensor(DType::F32, Shape::of(&[2])));
            b.values.push(v);
        }
        let nodes = b.g.nodes.len() + 1 + b.rng.below(5);
        b.grow(nodes);
        match gives {
            Some(types) => {
                for (i, ty) in types.iter().enumerate() {
                    let late = b.values.iter().rev().copied().find(|&v| b.g.ty(v) == ty);
                    let v = late.unwrap_or_else(|| b.constant(ty));
                    b.g.output(&format!("y{i}"), v);
                }
            }
            None => {
                let v = *b.values.last().unwrap();
                b.g.output("y0", v);
            }
        }
        b.g
    }

    fn types(&self, values: &[ValueId]) -> Vec<Type> {
        values.iter().map(|&v| self.g.ty(v).clone()).collect()
    }

    fn some_values(&mut self, most: usize) -> Vec<ValueId> {
        (0..self.rng.below(most + 1)).map(|_| self.value()).collect()
    }

    fn branch(&mut self) {
        let shape = self.rng.pick(&[vec![], vec![1]]);
        let p = self.of_type(&Type::tensor(DType::BOOL, Shape::of(&shape)));
        let captures = self.some_values(3);
        let takes = self.types(&captures);
        let then = self.body("then", &takes, None);
        let gives = then.signature().results;
        let other = self.body("else", &takes, Some(&gives));
        _ = self.push_regions(If, &[&[p][..], &captures].concat(), vec![then, other]);
    }

    /// A loop with a counter in front of what it carries.
    fn counted_loop(&mut self) {
        let dtype = self.rng.pick(&INTS);
        let counter = Type::tensor(dtype, Shape::of(&[]));
        let first = Constant::scalar(dtype, self.rng.below(2) as f64).unwrap();
        let Some(first) = self.push(first, &[]) else { return };
        let (mut carried, captures) = (vec![first], self.some_values(2));
        carried.extend(self.some_values(2));
        let takes = self.types(&[&carried[..], &captures].concat());
        let bound = Constant::scalar(dtype, self.rng.below(5) as f64).unwrap();
        let mut cond = Graph::new("cond");
        for (i, ty) in takes.iter().enumerate() {
            cond.param(ParamKind::Input, &format!("x{i}"), ty.clone());
        }
        let bound = cond.push1(bound, &[], "bound").unwrap();
        let f = self.rng.pick(&[Comparison::Lt, Comparison::Le]);
        let at = cond.params[0].value;
        let holds = cond.push1(Compare { f }, &[at, bound], "holds").unwrap();
        cond.output("holds", holds);
        let mut body = self.body("body", &takes, Some(&takes[..carried.len()]));
        let by = Constant::scalar(dtype, 1.0 + self.rng.below(2) as f64).unwrap();
        let by = body.push1(by, &[], "by").unwrap();
        let at = body.params[0].value;
        assert_eq!(body.ty(at), &counter);
        let next = body.push1(Zip { f: Binary::Add }, &[at, by], "next").unwrap();
        body.outputs[0].value = next;
        let operands = [&carried[..], &captures].concat();
        let op = While { carried: carried.len(), max: None };
        _ = self.push_regions(op, &operands, vec![cond, body]);
    }

    /// A loop whose condition is computed, but for a counter that ends it in time.
    fn bounded_loop(&mut self) {
        let counter = Type::tensor(DType::I32, Shape::of(&[]));
        let max = 1 + self.rng.below(4) as u64;
        let first = self.constant(&counter);
        let zero = Constant::scalar(DType::I32, 0.0).unwrap();
        let Some(zero) = self.push(zero, &[]) else { return };
        // min(max(first, 0), 0) that folding sees through, and the counter's pattern does not.
        let Some(first) = self.push(Zip { f: Binary::Mul }, &[first, zero]) else { return };
        let (mut carried, captures) = (vec![first], self.some_values(2));
        carried.extend(self.some_values(2));
        let takes = self.types(&[&carried[..], &captures].concat());
        let mut cond =
            self.body("cond", &takes, Some(&[Type::tensor(DType::BOOL, Shape::of(&[]))]));
        let bound = Constant::scalar(DType::I32, max as f64).unwrap();
        let bound = cond.push1(bound, &[], "bound").unwrap();
        let at = cond.params[0].value;
        let early = cond.push1(Compare { f: Comparison::Lt }, &[at, bound], "early").unwrap();
        let also = cond.outputs[0].value;
        let holds = cond.push1(Select, &[early, also, early], "holds").unwrap();
        cond.outputs[0].value = holds;
        let mut body = self.body("body", &takes, Some(&takes[..carried.len()]));
        let by = body.push1(Constant::scalar(DType::I32, 1.0).unwrap(), &[], "by").unwrap();
        let at = body.params[0].value;
        let next = body.push1(Zip { f: Binary::Add }, &[at, by], "next").unwrap();
        body.outputs[0].value = next;
        let operands = [&carried[..], &captures].concat();
        let op = While { carried: carried.len(), max: Some(max) };
        _ = self.push_regions(op, &operands, vec![cond, body]);
    }

    fn scan(&mut self) {
        let length = 1 + self.rng.below(4) as u64;
        let (carried, captures) = (self.some_values(2), self.some_values(1));
        let mut xs: Vec<ValueId> = Vec::new();
        for _ in 0..self.rng.below(3) {
            let mut ty = self.ty();
            ty.shape.0.truncate(RANK - 1);
            ty.shape.0.insert(0, length.into());
            xs.push(self.of_type(&ty));
        }
        let mut takes = self.types(&carried);
        let rows = self.types(&xs).into_iter().map(|mut ty| {
            ty.shape.0.remove(0);
            ty
        });
        takes.extend(rows);
        takes.extend(self.types(&captures));
        let mut body = self.body("body", &takes, Some(&takes[..carried.len()]));
        if carried.is_empty() || self.rng.once_in(2) {
            let made = body.nodes.iter().rev().flat_map(|n| n.outputs.clone());
            let v = made.chain(body.params.iter().map(|p| p.value)).next();
            let Some(v) = v.filter(|&v| body.ty(v).shape.rank() < RANK) else { return };
            body.output("row", v);
        }
        let operands = [&carried[..], &xs, &captures].concat();
        let reverse = self.rng.once_in(2);
        let op = Scan { carried: carried.len(), xs: xs.len(), length: length.into(), reverse };
        _ = self.push_regions(op, &operands, vec![body]);
    }
}
