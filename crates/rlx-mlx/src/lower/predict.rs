//! How models that fill blocks choose: `rlx_core::sample`'s `predict` and `canvas` step by step.

use super::sample::{distances, philox, weights, wide_product};
use super::takes::{Taken, is_float, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{CANVAS_WORDS, Op};
use rlx_core::sample::{PLAIN_SCALE, canvas, params};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &[])?;
    let Some(logits) = operands.first() else { return Err("it has no logits".into()) };
    let is_empty = |n: Option<u64>| n.is_none_or(|n| n == 0 || n >= 1 << 31);
    if logits.shape.0.iter().any(|d| is_empty(d.as_static())) {
        return Err("it has no tokens".into());
    }
    is_float(0, logits)
}

pub(super) fn takes_unmask(op: &Op, _: &[&Type], _: &Target) -> Taken {
    knows(op, &[])
}

/// A canvas: its plan's words and its tokens.
struct Canvas {
    words: Reg,
    block: i64,
}

impl Canvas {
    fn of(c: &Call<'_>, operand: usize) -> Result<Canvas> {
        let block = c.dims(operand)?[0] - CANVAS_WORDS as i64;
        Ok(Canvas { words: c.x(operand)?, block })
    }

    fn total(&self) -> i64 {
        self.block + CANVAS_WORDS as i64
    }

    fn word(&self, t: &mut Tape, i: usize) -> Reg {
        t.element(self.words, self.total(), i as i64)
    }

    fn tokens(&self, t: &mut Tape) -> Reg {
        t.slice(self.words, &[self.total()], 0, canvas::IDS as i64, self.total())
    }
}

pub(super) fn predict(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Predict(_) = c.op else { return Err(refused("no predict".into())) };
    let (&[rows, vocab], words) = (c.dims(0)?.as_slice(), c.dims(1)?[0]) else {
        return Err(refused("predict of no rows".into()));
    };
    let (logits, parameters, onto) = (c.cast(0, Kind::F32)?, c.x(1)?, Canvas::of(c, 2)?);
    let t = &mut *c.t;
    let word = |t: &mut Tape, i: usize| t.element(parameters, words, i as i64);
    let (least, zero) = (t.float(f32::NEG_INFINITY), t.integer(Kind::U32, 0));
    let nan = t.is_nan(logits);
    let logits = t.select(nan, least, logits);
    let max = t.reduce(Code::Max, logits, &[1], true);
    // Where the mask must not be chosen: a column of rows, and its place in each of these.
    let (mask, pass) = (onto.word(t, canvas::MASK), onto.word(t, canvas::PASS));
    let tokens = onto.tokens(t);
    let (is_mask, late) = (t.eq(tokens, mask), t.integer(Kind::U32, 2 * onto.block));
    let is_late = t.ge(pass, late);
    let never = t.or(is_mask, is_late);
    let never = t.reshape(never, &[rows, 1]);
    let ids = t.arange(Kind::U32, vocab);
    let ids = t.reshape(ids, &[1, vocab]);
    let is_mask = t.eq(ids, mask);
    let left_out = t.and(never, is_mask);
    // The lowest other id with the largest logit.
    let others = t.select(left_out, least, logits);
    let most = t.reduce(Code::Max, others, &[1], true);
    let best = t.with(Code::ArgMax, &[others], &[1]);
    let best = t.cast(best, Kind::U32);
    let nothing = t.eq(most, least);
    let is_first = t.eq(mask, zero);
    let is_first = t.and(never, is_first);
    let first = t.cast(is_first, Kind::U32);
    let best = t.select(nothing, first, best);
    let greedy = word(t, params::GREEDY);
    let greedy = t.ne(greedy, zero);
    let (plain, scale) = (t.float(PLAIN_SCALE), word(t, params::SCALE));
    let scale = t.bits(scale, Kind::F32);
    let scale = t.select(greedy, plain, scale);
    let min_p = word(t, params::MIN_P);
    let min_p = t.select(greedy, zero, min_p);
    let min_p = t.cast(min_p, Kind::U64);
    let q = distances(t, logits, max, scale);
    let weight = weights(t, q);
    let (none, heavy) = (t.integer(Kind::U64, 0), t.ge(weight, min_p));
    let kept = t.select(heavy, weight, none);
    let total = t.reduce(Code::Sum, kept, &[1], true);
    let drawn = t.select(left_out, none, kept);
    let sums = t.cumsum(drawn, 1);
    let of_others = t.slice(sums, &[rows, vocab], 1, vocab - 1, vocab);
    let seed = [params::SEED_LO, params::SEED_HI].map(|i| word(t, i));
    let random = random(t, &onto, seed, pass);
    let need = wide_product(t, random, of_others, 32);
    let before = t.le(sums, need);
    let before = t.cast(before, Kind::I32);
    let id = t.reduce(Code::Sum, before, &[1], true);
    let id = t.cast(id, Kind::U32);
    let end = t.integer(Kind::U32, vocab);
    let found = t.lt(id, end);
    let id = t.select(found, id, best);
    let id = t.select(greedy, best, id);
    let impossible = t.eq(max, least);
    let id = t.select(impossible, best, id);
    // Its share of the whole.
    let is_id = t.eq(ids, id);
    let chosen = t.select(is_id, kept, none);
    let chosen = t.reduce(Code::Sum, chosen, &[1], true);
    let (up, one) = (t.integer(Kind::U64, 31), t.integer(Kind::U64, 1));
    let chosen = t.shl(chosen, up);
    let total = t.maximum(total, one);
    let share = t.floor_div(chosen, total);
    let share = t.select(impossible, none, share);
    let share = t.cast(share, Kind::U32);
    Ok(vec![t.reshape(id, &[rows]), t.reshape(share, &[rows])])
}

/// The first word of Philox for each position of a pass: u64 `[B, 1]`.
fn random(t: &mut Tape, onto: &Canvas, seed: [Reg; 2], pass: Reg) -> Reg {
    let (start, rows) = (onto.word(t, canvas::START), t.arange(Kind::U32, onto.block));
    let position = t.add(start, rows);
    let position = t.reshape(position, &[onto.block, 1]);
    let zero = t.integer(Kind::U64, 0);
    let counter = [t.cast(position, Kind::U64), t.cast(pass, Kind::U64), zero, zero];
    let key = seed.map(|word| t.cast(word, Kind::U64));
    philox(t, counter, key)[0]
}

pub(super) fn unmask(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Unmask(_) = c.op else { return Err(refused("no unmask".into())) };
    let (ids, confidence, onto) = (c.x(0)?, c.x(1)?, Canvas::of(c, 2)?);
    let n = onto.block;
    let t = &mut *c.t;
    let (zero, one) = (t.integer(Kind::U32, 0), t.integer(Kind::U32, 1));
    let [mask, prompt, steps, threshold, editing, post, pass, after, finished, spread] = [
        canvas::MASK,
        canvas::PROMPT,
        canvas::STEPS,
        canvas::THRESHOLD,
        canvas::EDITING,
        canvas::POST,
        canvas::PASS,
        canvas::AFTER,
        canvas::FINISHED,
        canvas::SPREAD,
    ]
    .map(|i| onto.word(t, i));
    let (tokens, places) = (onto.tokens(t), t.arange(Kind::U32, n));
    let count = |t: &mut Tape, x: Reg, axis: i64| {
        let x = t.cast(x, Kind::U32);
        t.reduce(Code::Sum, x, &[axis], false)
    };
    let masked = t.eq(tokens, mask);
    let open = t.ne(tokens, mask);
    let sure = t.gt(confidence, threshold);
    let sure_masked = t.and(sure, masked);
    let is_sure = count(t, sure_masked, 0);
    // Positions that the pass fixes at least.
    let steps = t.maximum(steps, one);
    let (each, rest) = (t.floor_div(spread, steps), t.remainder(spread, steps));
    let more = t.lt(pass, rest);
    let more = t.cast(more, Kind::U32);
    let planned = t.add(each, more);
    let planned = t.maximum(planned, one);
    // Masked positions that are likelier, or as likely and before it.
    let column = |t: &mut Tape, x: Reg| t.reshape(x, &[n, 1]);
    let row = |t: &mut Tape, x: Reg| t.reshape(x, &[1, n]);
    let (theirs, own) = (column(t, confidence), row(t, confidence));
    let (likelier, as_likely) = (t.gt(theirs, own), t.eq(theirs, own));
    let (their_place, own_place) = (column(t, places), row(t, places));
    let earlier = t.lt(their_place, own_place);
    let tie = t.and(as_likely, earlier);
    let ahead = t.or(likelier, tie);
    let of_masked = column(t, masked);
    let ahead = t.and(ahead, of_masked);
    let ahead = count(t, ahead, 0);
    let by_plan = t.lt(ahead, planned);
    let enough = t.ge(is_sure, planned);
    let fixes = t.select(enough, sure, by_plan);
    let off = t.integer(Kind::U32, canvas::NO_EDITING.into());
    let (is_edited, is_off) = (t.ne(editing, off), t.eq(editing, off));
    let (behind, differs, likely) =
        (t.ge(places, prompt), t.ne(ids, tokens), t.gt(confidence, editing));
    let edits = t.and(behind, is_edited);
    let edits = t.and(edits, differs);
    let edits = t.and(edits, likely);
    let moves = t.select(masked, fixes, edits);
    let (fixed, edited) = (t.and(moves, masked), t.and(moves, open));
    let (fixed, edited) = (count(t, fixed, 0), count(t, edited, 0));
    let next = t.select(moves, ids, tokens);
    let had = t.reduce(Code::Any, masked, &[0], false);
    let left = t.eq(next, mask);
    let left = t.reduce(Code::Any, left, &[0], false);
    let pass = t.add(pass, one);
    let [had, left] = [had, left].map(|x| t.cast(x, Kind::U32));
    let had_none = t.eq(had, zero);
    let more = t.cast(had_none, Kind::U32);
    let after = t.add(after, more);
    let still = t.eq(edited, zero);
    let still = t.and(still, had_none);
    let late = t.ge(after, post);
    let done = t.or(late, still);
    let ends = t.or(done, is_off);
    let none_left = t.eq(left, zero);
    let ends = t.and(ends, none_left);
    let ends = t.cast(ends, Kind::U32);
    let words: Vec<Reg> = (0..canvas::IDS)
        .map(|i| {
            let word = match i {
                canvas::PASS => pass,
                canvas::AFTER => after,
                canvas::FINISHED => ends,
                canvas::FIXED => fixed,
                canvas::EDITED => edited,
                _ => onto.word(t, i),
            };
            t.reshape(word, &[1])
        })
        .collect();
    let words: Vec<Reg> = words.into_iter().chain([next]).collect();
    let next = t.concat(&words, 0);
    let is_finished = t.ne(finished, zero);
    Ok(vec![t.select(is_finished, onto.words, next)])
}
