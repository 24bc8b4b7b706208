//! Block diffusion: tokens for all positions of a block, and which of them are placed, in integers.
//! `rlx_core::sample` says what each step is.

use super::builder::{Builder, El, V};
use super::control::word;
use super::sample::{distances, param, weights};
use super::takes::{Taken, fits, knows};
use super::{Node, random, scan};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::sample::{PLAIN_SCALE, canvas, params};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &[])?;
    let x = operands.first().ok_or("it has no operand")?;
    fits(0, x, |t| t.is_float() || t == DType::U32)?;
    match x.shape.0.last().and_then(|d| d.as_static()) {
        Some(0) => Err("it chooses from no token".into()),
        _ => Ok(()),
    }
}

pub(super) fn predict(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let (logits, words, plan) =
        (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    let (rows, vocab) = (logits.dims[0], logits.dims[1]);
    let dims = [rows, vocab];
    let logits = b.convert(&logits, El::F32);
    let is_number = b.compare("EQ", &logits, &logits);
    let least = b.splat(El::F32, &dims, f64::NEG_INFINITY);
    let logits = b.select(&is_number, &logits, &least);
    let most = b.reduce("maximum", &logits, f64::NEG_INFINITY, &[1]);

    // The mask's own id is not chosen where the position has it already, nor by late passes.
    let ids = b.iota(El::U32, &dims, 1);
    let tokens = b.part(&plan, 0, canvas::IDS as u64, rows);
    let mask = param(b, &plan, canvas::MASK);
    let each = b.repeat(&mask, &[rows], &[]);
    let is_masked = b.compare("EQ", &tokens, &each);
    let pass = param(b, &plan, canvas::PASS);
    let is_late = b.compare_with("GE", &pass, 2.0 * rows as f64);
    let is_late = b.repeat(&is_late, &[rows], &[]);
    let is_masked = b.or(&is_masked, &is_late);
    let is_masked = b.repeat(&is_masked, &dims, &[0]);
    let wide = b.repeat(&mask, &dims, &[]);
    let is_mask = b.compare("EQ", &ids, &wide);
    let never = b.and(&is_masked, &is_mask);
    let others = b.select(&never, &least, &logits);
    let top = b.reduce("maximum", &others, f64::NEG_INFINITY, &[1]);
    let wide = b.repeat(&top, &dims, &[0]);
    let is_best = b.compare("EQ", &others, &wide);
    let allowed = b.not(&never);
    // Where no other is above -inf, all are as good, but for the one that is not chosen.
    let is_best = b.and(&is_best, &allowed);
    let none = b.integer(El::U32, &dims, u64::from(u32::MAX));
    let best = b.select(&is_best, &ids, &none);
    let best = b.reduce("minimum", &best, f64::from(u32::MAX), &[1]);
    // A vocabulary of the mask alone.
    let is_none = b.compare_with("EQ", &best, f64::from(u32::MAX));
    let one = b.integer(El::U32, &[rows], 1);
    let best = b.select(&is_none, &one, &best);

    let greedy = param(b, &words, params::GREEDY);
    let greedy = b.compare_with("NE", &greedy, 0.0);
    let plain = b.scalar(El::F32, PLAIN_SCALE.into());
    let scale = param(b, &words, params::SCALE);
    let scale = b.bitcast(&scale, El::F32);
    let scale = b.select(&greedy, &plain, &scale);
    let most_wide = b.repeat(&most, &dims, &[0]);
    let q = distances(b, &logits, &most_wide, &scale);
    let w = weights(b, &q);
    let min_p = param(b, &words, params::MIN_P);
    let zero = b.integer(El::U32, &[], 0);
    let min_p = b.select(&greedy, &zero, &min_p);
    let min_p = b.convert(&min_p, El::U64);
    let min_p = b.repeat(&min_p, &dims, &[]);
    let heavy = b.compare("GE", &w, &min_p);
    let nothing = b.integer(El::U64, &dims, 0);
    let kept = b.select(&heavy, &w, &nothing);
    let total = b.sum(&kept, &[1]);

    let free = b.select(&never, &nothing, &kept);
    let sums = scan::running(b, &free);
    let whole = b.part(&sums, 1, vocab - 1, 1);
    let whole = b.reshape(&whole, &[rows]);
    let random = first_words(b, &words, &plan, rows);
    let random = b.convert(&random, El::U64);
    // The product by halves: the sum of all weights may have more than 32 bits.
    let high = b.shift_right(&whole, 32);
    let bits = b.integer(El::U64, &[rows], u64::from(u32::MAX));
    let low = b.and(&whole, &bits);
    let (high, low) = (b.mul(&high, &random), b.mul(&low, &random));
    let low = b.shift_right(&low, 32);
    let need = b.add(&high, &low);
    let need = b.repeat(&need, &dims, &[0]);
    let before = b.compare("LE", &sums, &need);
    let before = b.convert(&before, El::U32);
    let drawn = b.sum(&before, &[1]);
    let is_empty = b.compare_with("EQ", &whole, 0.0);
    let greedy = b.repeat(&greedy, &[rows], &[]);
    let plain = b.or(&greedy, &is_empty);
    let id = b.select(&plain, &best, &drawn);

    let wide = b.repeat(&id, &dims, &[0]);
    let is_chosen = b.compare("EQ", &ids, &wide);
    let chosen = b.select(&is_chosen, &kept, &nothing);
    let chosen = b.sum(&chosen, &[1]);
    let chosen = b.shift_left(&chosen, 31);
    let one = b.integer(El::U64, &[rows], 1);
    let divisor = b.max(&total, &one);
    let share = b.div(&chosen, &divisor);
    let share = b.convert(&share, El::U32);
    // Without any logit there is no probability, and nothing is drawn.
    let is_out = b.compare_with("EQ", &most, f64::NEG_INFINITY);
    let zero = b.integer(El::U32, &[rows], 0);
    Ok(vec![b.select(&is_out, &best, &id), b.select(&is_out, &zero, &share)])
}

/// Philox's first word for each position of the block and the pass.
fn first_words(b: &mut Builder, words: &V, plan: &V, rows: u64) -> V {
    let wide = |b: &mut Builder, of: &V, at: usize| {
        let w = param(b, of, at);
        b.repeat(&w, &[rows], &[])
    };
    let start = wide(b, plan, canvas::START);
    let pass = wide(b, plan, canvas::PASS);
    let key = [params::SEED_LO, params::SEED_HI].map(|at| wide(b, words, at));
    let i = b.iota(El::U32, &[rows], 0);
    let zero = b.integer(El::U32, &[rows], 0);
    let counter = [b.add(&start, &i), pass, zero.clone(), zero];
    let [first, ..] = random::philox(b, counter, key);
    first
}

pub(super) fn unmask(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let (ids, sure, plan) =
        (node.value(0)?.clone(), node.value(1)?.clone(), node.value(2)?.clone());
    let n = ids.dims[0];
    let row = [n];
    let at = |b: &mut Builder, i: usize| word(b, &plan, i as u64);
    let [mask, threshold, editing, prompt] =
        [canvas::MASK, canvas::THRESHOLD, canvas::EDITING, canvas::PROMPT].map(|i| {
            let w = at(b, i);
            b.repeat(&w, &row, &[])
        });
    let tokens = b.part(&plan, 0, canvas::IDS as u64, n);
    let masked = b.compare("EQ", &tokens, &mask);
    let likely = b.compare("GT", &sure, &threshold);
    let sure_ones = b.and(&masked, &likely);
    let count = counted(b, &sure_ones);
    let planned = planned(b, &plan);
    let enough = b.compare("GE", &count, &planned);
    let enough = b.repeat(&enough, &row, &[]);

    // Likelier masked positions, and as likely ones before, of each: [position, other].
    let grid = [n, n];
    let (own, other) = (b.repeat(&sure, &grid, &[0]), b.repeat(&sure, &grid, &[1]));
    let (i, j) = (b.iota(El::U32, &grid, 0), b.iota(El::U32, &grid, 1));
    let likelier = b.compare("GT", &other, &own);
    let (same, before) = (b.compare("EQ", &other, &own), b.compare("LT", &j, &i));
    let tied = b.and(&same, &before);
    let ahead = b.or(&likelier, &tied);
    let other_masked = b.repeat(&masked, &grid, &[1]);
    let ahead = b.and(&ahead, &other_masked);
    let ahead = b.convert(&ahead, El::U32);
    let ahead = b.sum(&ahead, &[1]);
    let wide = b.repeat(&planned, &row, &[]);
    let first = b.compare("LT", &ahead, &wide);
    let fixes = b.select(&enough, &likely, &first);
    let fixes = b.and(&masked, &fixes);

    let placed = b.not(&masked);
    let i = b.iota(El::U32, &row, 0);
    let answer = b.compare("GE", &i, &prompt);
    let edits_any = b.compare_with("NE", &editing, f64::from(canvas::NO_EDITING));
    let differs = b.compare("NE", &ids, &tokens);
    let likely = b.compare("GT", &sure, &editing);
    let edits = [answer, edits_any.clone(), differs, likely]
        .iter()
        .fold(placed.clone(), |all, x| b.and(&all, x));
    let moves = b.or(&fixes, &edits);
    let next = b.select(&moves, &ids, &tokens);
    let (fixed, edited) = (counted(b, &fixes), counted(b, &edits));
    let masks = counted(b, &masked);
    let had_masks = b.compare_with("GT", &masks, 0.0);

    let one = b.integer(El::U32, &[], 1);
    let zero = b.integer(El::U32, &[], 0);
    let pass = at(b, canvas::PASS);
    let pass = b.add(&pass, &one);
    let more = b.select(&had_masks, &zero, &one);
    let after = at(b, canvas::AFTER);
    let after = b.add(&after, &more);
    let post = at(b, canvas::POST);
    let over = b.compare("GE", &after, &post);
    let still = b.compare_with("EQ", &edited, 0.0);
    let no_masks = b.not(&had_masks);
    let still = b.and(&no_masks, &still);
    let done = b.or(&over, &still);
    let editing = at(b, canvas::EDITING);
    let never = b.compare_with("EQ", &editing, f64::from(canvas::NO_EDITING));
    let ends = b.or(&never, &done);
    let left = b.compare("EQ", &next, &mask);
    let left = counted(b, &left);
    let whole = b.compare_with("EQ", &left, 0.0);
    let finished = b.and(&ends, &whole);
    let finished = b.select(&finished, &one, &zero);

    let mut all: Vec<V> = (0..canvas::IDS).map(|i| at(b, i)).collect();
    let changed = [
        (canvas::PASS, pass),
        (canvas::AFTER, after),
        (canvas::FIXED, fixed),
        (canvas::EDITED, edited),
        (canvas::FINISHED, finished),
    ];
    for (i, v) in changed {
        all[i] = v;
    }
    let mut all: Vec<V> = all.iter().map(|v| b.reshape(v, &[1])).collect();
    all.push(next);
    let next = b.concat(&all, 0);
    // A canvas that is finished stays as it is.
    let was = at(b, canvas::FINISHED);
    let goes_on = b.compare_with("EQ", &was, 0.0);
    let goes_on = b.repeat(&goes_on, &next.dims.clone(), &[]);
    Ok(vec![b.select(&goes_on, &next, &plan)])
}

/// How many are true.
fn counted(b: &mut Builder, x: &V) -> V {
    let ones = b.convert(x, El::U32);
    b.sum(&ones, &[0])
}

/// Positions that the next pass fixes at least.
fn planned(b: &mut Builder, plan: &V) -> V {
    let [spread, steps, pass] =
        [canvas::SPREAD, canvas::STEPS, canvas::PASS].map(|i| word(b, plan, i as u64));
    let one = b.integer(El::U32, &[], 1);
    let steps = b.max(&steps, &one);
    let each = b.div(&spread, &steps);
    let rest = b.binary("remainder", &spread, &steps);
    let more = b.compare("LT", &pass, &rest);
    let more = b.convert(&more, El::U32);
    let all = b.add(&each, &more);
    b.max(&all, &one)
}
