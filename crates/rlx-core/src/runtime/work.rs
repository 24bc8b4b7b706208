//! The least work of a step: the bytes it must move and the operations it must do, at a place in the context.

use crate::ir::lir::{Program, Slice, Space, Step};
use crate::ops::{Attention, GroupedMatMul, Op};
use core::ops::AddAssign;

/// The rows of a submission, and the positions in the caches before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Positions before the first row.
    pub past: u64,
    /// Rows of the submission; a prompt's program may have room for more.
    pub rows: u64,
}

/// The least work. A kernel that reads something twice does more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes read: packed weights, the rows of caches that attention sees, activations. Of experts' banks as
    /// many matrices as the rows have experts, all of them different, and no more than there are. Other
    /// states and the partial sums of a split attention are not counted.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Additions and multiplications of matrix products and attention; those of other operators are not counted.
    pub operations: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.written += other.written;
        self.operations += other.operations;
    }
}

fn dim(slice: &Slice, axis: usize) -> u64 {
    slice.ty.shape.0.get(axis).and_then(|d| d.as_static()).unwrap_or(1)
}

impl Work {
    /// The least work of a step of the program.
    pub fn of(step: &Step, program: &Program, at: Position) -> Work {
        // Values with rows per token count only the rows of the submission's tokens.
        let tokens = program.control.map_or(1, |c| c.tokens).max(1);
        let live = at.rows.min(tokens);
        let active = |s: &Slice| match step.live {
            Some(_) if dim(s, 0).is_multiple_of(tokens) => s.bytes / tokens * live,
            _ => s.bytes,
        };
        let mut work = Work::default();
        for s in &step.operands {
            work.read += match (s.space, &step.op) {
                (Space::State, _) => 0,
                (Space::Weight, Op::GroupedMatMul(op)) => {
                    let experts = dim(s, 0).max(1);
                    s.bytes / experts * chosen(op, step, tokens, live).min(experts)
                }
                (Space::Weight, Op::Gather(_)) => s.bytes / dim(s, 0).max(1) * live,
                (Space::Weight, _) => s.bytes,
                (_, Op::AttentionJoin(_)) => 0,
                // Its results have no rows for tokens.
                (_, Op::AttentionSplit(_)) => s.bytes / dim(s, 0).max(1) * live,
                _ => active(s),
            };
        }
        for s in step.results.iter().filter(|s| s.space != Space::State) {
            work.written += match &step.op {
                Op::AttentionSplit(_) | Op::RopeAttentionSplit(_) => 0,
                _ => active(s),
            };
        }
        match &step.op {
            Op::MatMul(op) => {
                let first = op.parts().weights;
                let m = step.operands.first().map_or(1, |x| match step.live {
                    Some(_) => dim(x, 0) / tokens * live,
                    None => dim(x, 0),
                });
                let weights = step.operands.iter().skip(first).take(op.segments);
                work.operations = weights.map(|w| 2 * m * dim(w, 0) * dim(w, 1)).sum();
            }
            Op::GroupedMatMul(op) => {
                let pairs = chosen(op, step, tokens, live);
                let banks = step.operands.iter().skip(op.parts().banks).take(op.segments);
                work.operations = banks.map(|w| 2 * pairs * dim(w, 1) * dim(w, 2)).sum();
            }
            Op::Attention(op) => work += attention(op, step, at),
            Op::AttentionSplit(op) => work += attention(&op.whole, step, at),
            Op::RopeAttentionSplit(op) => {
                work += attention(&op.split.whole, step, at);
                work.written += new_rows(step, live);
            }
            Op::KvWrite(_) | Op::RopeKvWrite(_) => work.written += new_rows(step, live),
            _ => {}
        }
        work
    }
}

/// Experts of all rows of a submission.
fn chosen(op: &GroupedMatMul, step: &Step, tokens: u64, live: u64) -> u64 {
    let Some(ids) = step.operands.get(op.parts().ids) else { return 0 };
    let rows = match step.live {
        Some(_) => dim(ids, 0) / tokens * live,
        None => dim(ids, 0),
    };
    rows * dim(ids, 1)
}

/// Bytes of the rows that are written to caches.
fn new_rows(step: &Step, rows: u64) -> u64 {
    let caches = step.results.iter().filter(|s| s.space == Space::State);
    caches.map(|c| c.bytes / dim(c, 1).max(1) * rows).sum()
}

/// Reading the caches, and computing scores and sums over them.
fn attention(op: &Attention, step: &Step, at: Position) -> Work {
    let window = op.window.map_or(u64::MAX, |w| w.saturating_add(1));
    let seen = (at.past + at.rows).min(window.saturating_add(at.rows.saturating_sub(1)));
    let caches = step.operands.iter().filter(|s| s.space == Space::State && s.ty.shape.rank() == 3);
    let read = caches.map(|c| c.bytes / dim(c, 1).max(1) * seen).sum();
    let width = step.operands.first().map_or(0, |q| dim(q, 1));
    let held = at.past + at.rows;
    let visible = (0..at.rows).map(|i| {
        let position = usize::try_from(at.past + i).unwrap_or(usize::MAX);
        op.seen(position, usize::try_from(held).unwrap_or(usize::MAX)).len() as u64
    });
    let visible: u64 = visible.sum();
    Work { read, written: 0, operations: 4 * width * visible }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::lir::Phase;
    use crate::ir::mir::Graph;
    use crate::ops::{AttentionSplit, Gather, MatMul};
    use crate::types::{BlockFormat, DType, Shape, Type};
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    fn program(chunk: u64) -> Program {
        let ids = Type::tensor(DType::U32, Shape::of(&[chunk]));
        let bytes = 4 * chunk;
        Program {
            name: "prefill".into(),
            graph: Graph::default(),
            steps: Vec::new(),
            weights: Vec::new(),
            states: Vec::new(),
            control: Some(crate::ir::lir::ControlDecl { state: 0, slots: 1, tokens: chunk }),
            inputs: vec![crate::ir::lir::InputDecl { name: "ids".into(), ty: ids, bytes }],
            outputs: Vec::new(),
            arena_bytes: 0,
            arena_segments: Vec::new(),
            alignment: 64,
            largest_live_bytes: 0,
            unshared_bytes: 0,
            template: None,
            fingerprint: 0,
        }
    }

    fn slice(space: Space, dtype: DType, dims: &[u64]) -> Slice {
        let ty = match space {
            Space::State => Type::state(dtype, Shape::of(dims)),
            _ => Type::tensor(dtype, Shape::of(dims)),
        };
        let bytes = ty.bytes().unwrap();
        Slice { space, index: 0, offset: 0, ty, bytes }
    }

    fn step(op: impl Into<Op>, operands: Vec<Slice>, results: Vec<Slice>) -> Step {
        let (regions, part, label) = (Vec::new(), None, String::new());
        let (live, phase) = (Some(1), Phase::Steady);
        Step { op: op.into(), operands, results, regions, part, live, phase, label }
    }

    #[test]
    fn a_matmul_reads_its_weight_and_the_rows_that_are_there() {
        let x = slice(Space::Arena, DType::F32, &[64, 256]);
        let w = slice(Space::Weight, DType::Block(BlockFormat::Q4K), &[512, 256]);
        let y = slice(Space::Arena, DType::F32, &[64, 512]);
        let step = step(MatMul::plain(), vec![x, w], vec![y]);
        let at = Position { past: 0, rows: 10 };
        let read = 512 * 144 + 10 * 256 * 4;
        let expected = Work { read, written: 10 * 512 * 4, operations: 2 * 10 * 512 * 256 };
        assert_eq!(Work::of(&step, &program(64), at), expected);
    }

    #[test]
    fn experts_read_the_matrices_of_the_rows_that_are_there() {
        let bank = || slice(Space::Weight, DType::Block(BlockFormat::Q4K), &[16, 32, 256]);
        let tensor = |dtype, dims: &[u64]| slice(Space::Arena, dtype, dims);
        let operands = |m| {
            let (x, ids) = (tensor(DType::F32, &[m, 256]), tensor(DType::U32, &[m, 4]));
            vec![x, bank(), bank(), ids]
        };
        let glu = GroupedMatMul::glu(crate::ops::Unary::Silu);
        let one = step(glu.clone(), operands(1), vec![tensor(DType::F32, &[1, 4, 32])]);
        let matrix = 32 * 144;
        let expected = Work {
            read: 2 * 4 * matrix + 1024 + 16,
            written: 4 * 32 * 4,
            operations: 2 * 2 * 4 * 32 * 256,
        };
        assert_eq!(Work::of(&one, &program(1), Position { past: 0, rows: 1 }), expected);
        // Ten of 64 rows have more experts than there are.
        let many = step(glu, operands(64), vec![tensor(DType::F32, &[64, 4, 32])]);
        let work = Work::of(&many, &program(64), Position { past: 0, rows: 10 });
        assert_eq!(work.read, 2 * 16 * matrix + 10 * (1024 + 16));
        assert_eq!(work.operations, 10 * expected.operations);
    }

    #[test]
    fn attention_reads_the_positions_that_a_row_sees() {
        let q = slice(Space::Arena, DType::F32, &[1, 128]);
        let cache = slice(Space::State, DType::F16, &[1, 1024, 64]);
        let ctl = slice(Space::State, DType::U32, &[16]);
        let operands = vec![q.clone(), cache.clone(), cache, ctl];
        let at = Position { past: 99, rows: 1 };
        let all = step(Attention::causal(64, 1.0), operands.clone(), vec![q.clone()]);
        let expected = Work { read: 512 + 2 * 100 * 128, written: 512, operations: 4 * 128 * 100 };
        assert_eq!(Work::of(&all, &program(1), at), expected);
        let near = Attention { window: Some(9), ..Attention::causal(64, 1.0) };
        let split = AttentionSplit { whole: near, splits: 4, least: 32 };
        let split = step(split, operands, vec![q]);
        let expected = Work { read: 512 + 2 * 10 * 128, written: 0, operations: 4 * 128 * 10 };
        assert_eq!(Work::of(&split, &program(1), at), expected);
    }

    #[test]
    fn a_gather_reads_a_row_for_each_id() {
        let w = slice(Space::Weight, DType::F32, &[1000, 8]);
        let ids = slice(Space::Input, DType::U32, &[64]);
        let y = slice(Space::Arena, DType::F32, &[64, 8]);
        let step = step(Gather { axis: 0 }, vec![w, ids], vec![y]);
        let at = Position { past: 0, rows: 3 };
        let expected = Work { read: 3 * 32 + 3 * 4, written: 3 * 32, operations: 0 };
        assert_eq!(Work::of(&step, &program(64), at), expected);
    }
}
