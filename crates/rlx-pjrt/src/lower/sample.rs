//! Logits to a token, in integers: `rlx_core::sample` says what each step is, and why.
//!
//! Where the sampler of the core selects by radix, this one sorts: the tokens that top-k and top-p keep are a run of
//! the order of (distance, id), so that its last token decides of every other.

use super::{Node, random, scan};
use super::builder::{Builder, El, V};
use super::control::word;
use super::takes::{Taken, fits, knows};
use rlx_core::Result;
use rlx_core::ops::{Op, PARAMS_WORDS};
use rlx_core::sample::weight::FAR;
use rlx_core::sample::{GENERATED, IN_PROMPT, control, params};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &[])?;
    operands.first().map_or(Ok(()), |x| fits(0, x, DType::is_float))
}

pub(super) fn sample(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let (logits, words, counts, block) = (
        node.value(0)?.clone(),
        node.value(1)?.clone(),
        node.value(2)?.clone(),
        node.value(3)?.clone(),
    );
    let n = logits.elements();
    if n == 0 {
        return Err(node.mismatch());
    }
    let logits = b.convert(&logits, El::F32);
    let logits = b.reshape(&logits, &[n]);
    let done = word(b, &block, control::DONE as u64);
    let runs = b.compare_with("EQ", &done, 0.0);
    let penalties = param(b, &words, params::PENALTIES);
    let penalties = b.compare_with("NE", &penalties, 0.0);
    let logits = penalised(b, &logits, &words, &counts, &penalties);
    let logits = allowed(b, &logits, &words);

    let most = b.reduce("maximum", &logits, f64::NEG_INFINITY, &[0]);
    let ids = b.iota(El::U32, &[n], 0);
    let all = b.repeat(&most, &[n], &[]);
    let is_best = b.compare("EQ", &logits, &all);
    let none = b.integer(El::U32, &[n], u64::from(u32::MAX));
    let best = b.select(&is_best, &ids, &none);
    let best = b.reduce("minimum", &best, f64::from(u32::MAX), &[0]);

    let greedy = param(b, &words, params::GREEDY);
    let greedy = b.compare_with("NE", &greedy, 0.0);
    let nothing = b.compare_with("EQ", &most, f64::NEG_INFINITY);
    let greedy = b.or(&greedy, &nothing);
    let id = b.either(
        &greedy,
        std::slice::from_ref(&best),
        |_| vec![best.clone()],
        |b| vec![drawn(b, &logits, &most, &words, &block)],
    );
    let id = id[0].clone();

    // Counts stay below the bits that are not theirs.
    let generated = b.bits(&counts, GENERATED);
    let is_full = b.compare_with("EQ", &generated, GENERATED.into());
    let more = b.with("add", &counts, 1.0);
    let more = b.select(&is_full, &counts, &more);
    let each = b.repeat(&id, &[n], &[]);
    let is_chosen = b.compare("EQ", &ids, &each);
    let counting = b.and(&runs, &penalties);
    let counting = b.repeat(&counting, &[n], &[]);
    let counted = b.and(&is_chosen, &counting);
    let next_counts = b.select(&counted, &more, &counts);
    let next = advanced(b, &id, &words, &block);
    let runs = b.repeat(&runs, &next.dims.clone(), &[]);
    let next = b.select(&runs, &next, &block);
    Ok(vec![next_counts, next])
}

/// A parameter's word.
fn param(b: &mut Builder, words: &V, at: usize) -> V {
    word(b, words, at as u64)
}

/// A parameter that is a float.
fn float(b: &mut Builder, words: &V, at: usize, dims: &[u64]) -> V {
    let x = param(b, words, at);
    let x = b.bitcast(&x, El::F32);
    b.repeat(&x, dims, &[])
}

/// Logits with penalties and biases, where there are any.
fn penalised(b: &mut Builder, logits: &V, words: &V, counts: &V, penalties: &V) -> V {
    let dims = logits.dims.clone();
    let repetition = float(b, words, params::REPETITION, &dims);
    let reciprocal = float(b, words, params::REPETITION_RECIPROCAL, &dims);
    let frequency = float(b, words, params::FREQUENCY, &dims);
    let presence = float(b, words, params::PRESENCE, &dims);
    let positive = b.compare_with("GT", logits, 0.0);
    let by = b.select(&positive, &reciprocal, &repetition);
    let less = b.mul(logits, &by);
    let known = b.bits(counts, IN_PROMPT | GENERATED);
    let known = b.compare_with("NE", &known, 0.0);
    let x = b.select(&known, &less, logits);
    let generated = b.bits(counts, GENERATED);
    let often = b.convert(&generated, El::F32);
    let less = b.mul(&frequency, &often);
    let less = b.add(&less, &presence);
    let less = b.sub(&x, &less);
    let any = b.compare_with("GT", &generated, 0.0);
    let x = b.select(&any, &less, &x);
    let bias = b.bitcast(counts, El::I32);
    let bias = b.with("shift_right_arithmetic", &bias, 16.0);
    let bias = b.convert(&bias, El::F32);
    let bias = b.with("divide", &bias, 256.0);
    let x = b.add(&x, &bias);
    let penalties = b.repeat(penalties, &dims, &[]);
    b.select(&penalties, &x, logits)
}

/// Logits of tokens that may be chosen, and -inf for the others and for what is no number.
fn allowed(b: &mut Builder, logits: &V, words: &V) -> V {
    let n = logits.dims[0];
    let masks = n.div_ceil(32);
    let mask = b.part(words, 0, PARAMS_WORDS, masks);
    let mask = b.repeat(&mask, &[masks, 32], &[0]);
    let bit = b.iota(El::U32, &[masks, 32], 1);
    let mask = b.binary("shift_right_logical", &mask, &bit);
    let mask = b.bits(&mask, 1);
    let mask = b.reshape(&mask, &[masks * 32]);
    let mask = b.part(&mask, 0, 0, n);
    let may = b.compare_with("NE", &mask, 0.0);
    let masked = param(b, words, params::MASKED);
    let free = b.compare_with("EQ", &masked, 0.0);
    let free = b.repeat(&free, &[n], &[]);
    let may = b.or(&may, &free);
    let is_number = b.compare("EQ", logits, logits);
    let may = b.and(&may, &is_number);
    let never = b.splat(El::F32, &[n], f64::NEG_INFINITY);
    b.select(&may, logits, &never)
}

/// How far each logit is below the best, in 2^-16 octaves of weight.
fn distances(b: &mut Builder, logits: &V, most: &V, words: &V) -> V {
    let largest = 2f64.powi(126);
    let dims = logits.dims.clone();
    let bounded = |b: &mut Builder, x: &V| {
        let (low, high) = (b.splat(x.el, &x.dims, -largest), b.splat(x.el, &x.dims, largest));
        let x = b.max(x, &low);
        b.min(&x, &high)
    };
    let most = bounded(b, most);
    let most = b.repeat(&most, &dims, &[]);
    let each = bounded(b, logits);
    let gap = b.sub(&most, &each);
    let farthest = b.splat(El::F32, &dims, f64::from(1 << 25));
    let gap = b.min(&gap, &farthest);
    let scale = float(b, words, params::SCALE, &dims);
    let q = b.mul(&gap, &scale);
    let far = b.splat(El::F32, &dims, FAR.into());
    let q = b.min(&q, &far);
    let is_out = b.compare_with("EQ", logits, f64::NEG_INFINITY);
    let q = b.select(&is_out, &far, &q);
    b.convert(&q, El::U32)
}

/// The weight of a distance, 0 from [`FAR`] on: the polynomial of `rlx_core::sample::weight`.
fn weights(b: &mut Builder, q: &V) -> V {
    const COEFFICIENTS: [u64; 6] =
        [2_034_856, 19_794_886, 118_784_456, 515_800_015, 1_488_517_413, 1 << 31];
    let wide = b.convert(q, El::U64);
    let fraction = b.with("and", &wide, f64::from(0xffff));
    let mut sum = b.integer(El::U64, &q.dims, COEFFICIENTS[0]);
    for c in &COEFFICIENTS[1..] {
        let product = b.mul(&sum, &fraction);
        let product = b.shift_right(&product, 16);
        let c = b.integer(El::U64, &q.dims, *c);
        sum = b.sub(&c, &product);
    }
    let octaves = b.shift_right(&wide, 16);
    let sum = b.binary("shift_right_logical", &sum, &octaves);
    let near = b.compare_with("LT", q, FAR.into());
    let zero = b.integer(El::U64, &q.dims, 0);
    b.select(&near, &sum, &zero)
}

/// `x y >> by` of numbers without axes, where `y` and what is shifted out are below 2^32 and the result below 2^64.
fn scaled(b: &mut Builder, x: &V, y: &V, by: u32) -> V {
    let high = b.shift_right(x, by);
    let low = b.integer(El::U64, &[], (1 << by) - 1);
    let low = b.and(x, &low);
    let (high, low) = (b.mul(&high, y), b.mul(&low, y));
    let low = b.shift_right(&low, by);
    b.add(&high, &low)
}

/// The token that is drawn.
fn drawn(b: &mut Builder, logits: &V, most: &V, words: &V, block: &V) -> V {
    let n = logits.dims[0];
    let q = distances(b, logits, most, words);
    let ids = b.iota(El::U32, &[n], 0);
    let top_k = param(b, words, params::TOP_K);
    let top_p = param(b, words, params::TOP_P);
    let all = b.compare_with("EQ", &top_k, 0.0);
    let no_p = b.compare_with("GE", &top_p, params::TOP_P_OFF.into());
    let all = b.and(&all, &no_p);
    let like = [b.integer(El::U32, &[], 0), b.integer(El::U32, &[], 0)];
    // The last token that is kept.
    let cut = b.either(
        &all,
        &like,
        |b| [FAR - 1, u32::MAX].map(|x| b.integer(El::U32, &[], x.into())).to_vec(),
        |b| cut(b, &q, &ids, &top_k, &top_p),
    );
    let [cut_q, cut_id] = [0, 1].map(|i| b.repeat(&cut[i].clone(), &[n], &[]));
    let nearer = b.compare("LT", &q, &cut_q);
    let (same, first) = (b.compare("EQ", &q, &cut_q), b.compare("LE", &ids, &cut_id));
    let tied = b.and(&same, &first);
    let kept = b.or(&nearer, &tied);
    let w = weights(b, &q);
    let min_p = param(b, words, params::MIN_P);
    let min_p = b.convert(&min_p, El::U64);
    let min_p = b.repeat(&min_p, &[n], &[]);
    let heavy = b.compare("GE", &w, &min_p);
    let kept = b.and(&kept, &heavy);
    let zero = b.integer(El::U64, &[n], 0);
    let w = b.select(&kept, &w, &zero);
    let sums = scan::running_of(b, &w);
    let total = b.part(&sums, 0, n - 1, 1);
    let total = b.reshape(&total, &[]);
    let random = first_word(b, words, block);
    let random = b.convert(&random, El::U64);
    let target = scaled(b, &total, &random, 32);
    let target = b.repeat(&target, &[n], &[]);
    // As many tokens stand before the first one whose sum exceeds the target.
    let before = b.compare("LE", &sums, &target);
    let before = b.convert(&before, El::U32);
    b.sum(&before, &[0])
}

/// Distance and id of the last token that top-k and then top-p keep.
fn cut(b: &mut Builder, q: &V, ids: &V, top_k: &V, top_p: &V) -> Vec<V> {
    let n = q.dims[0];
    let sorted = b.sort(&[q.clone(), ids.clone()], 0, |b, pairs| b.compare("LT", &pairs[0][0], &pairs[0][1]));
    let near = b.compare_with("LT", &sorted[0], FAR.into());
    let no_k = b.compare_with("EQ", top_k, 0.0);
    let everything = b.integer(El::U32, &[], u64::from(u32::MAX));
    let most = b.select(&no_k, &everything, top_k);
    let most = b.repeat(&most, &[n], &[]);
    let rank = b.iota(El::U32, &[n], 0);
    let within = b.compare("LT", &rank, &most);
    let kept = b.and(&near, &within);
    let w = weights(b, &sorted[0]);
    let zero = b.integer(El::U64, &[n], 0);
    let w = b.select(&kept, &w, &zero);
    let sums = scan::running_of(b, &w);
    let total = b.part(&sums, 0, n - 1, 1);
    let total = b.reshape(&total, &[]);
    let share = b.convert(top_p, El::U64);
    let need = scaled(b, &total, &share, 31);
    let one = b.integer(El::U64, &[], 1);
    let need = b.max(&need, &one);
    let need = b.repeat(&need, &[n], &[]);
    let before = b.sub(&sums, &w);
    let needed = b.compare("LT", &before, &need);
    let no_p = b.compare_with("GE", top_p, params::TOP_P_OFF.into());
    let no_p = b.repeat(&no_p, &[n], &[]);
    let needed = b.or(&needed, &no_p);
    let kept = b.and(&kept, &needed);
    // The best token is always kept.
    let kept = b.convert(&kept, El::I32);
    let last = b.sum(&kept, &[0]);
    let last = b.with("subtract", &last, 1.0);
    let last = b.reshape(&last, &[1]);
    sorted.iter().map(|x| b.take(x, &last, 0)).collect::<Vec<_>>().iter().map(|x| b.reshape(x, &[])).collect()
}

/// Philox's first word for the seed and the position.
fn first_word(b: &mut Builder, words: &V, block: &V) -> V {
    let past = word(b, block, control::PAST as u64);
    let len = word(b, block, control::LEN as u64);
    let zero = b.integer(El::U32, &[], 0);
    let counter = [b.add(&past, &len), zero.clone(), zero.clone(), zero];
    let key = [params::SEED_LO, params::SEED_HI].map(|at| param(b, words, at));
    let [first, ..] = random::philox(b, counter, key);
    first
}

/// The control block behind the token.
fn advanced(b: &mut Builder, id: &V, words: &V, block: &V) -> V {
    let mut at = |i: usize| word(b, block, i as u64);
    let (past, len, step) = (at(control::PAST), at(control::LEN), at(control::STEP));
    let (limit, ring, capacity) = (at(control::LIMIT), at(control::RING), at(control::CAPACITY));
    let one = b.integer(El::U32, &[], 1);
    let past = b.add(&past, &len);
    let (step, ring) = (b.add(&step, &one), b.add(&ring, &one));
    let stops = params::MAX_STOP_IDS as u64;
    let ids = b.part(words, 0, params::STOP as u64, stops);
    let each = b.repeat(id, &[stops], &[]);
    let same = b.compare("EQ", &ids, &each);
    let i = b.iota(El::U32, &[stops], 0);
    let count = param(b, words, params::N_STOP);
    let count = b.repeat(&count, &[stops], &[]);
    let counts = b.compare("LT", &i, &count);
    let hit = b.and(&same, &counts);
    let hit = b.convert(&hit, El::U32);
    let hit = b.sum(&hit, &[0]);
    let is_stop = b.compare_with("GT", &hit, 0.0);
    let (long, large) = (b.compare("GE", &step, &limit), b.compare("GE", &past, &capacity));
    let is_full = b.or(&long, &large);
    let [running, stopped, full] = [control::RUNNING, control::STOPPED, control::FULL]
        .map(|x| b.integer(El::U32, &[], x.into()));
    let done = b.select(&is_full, &full, &running);
    let done = b.select(&is_stop, &stopped, &done);
    let mut next = vec![b.integer(El::U32, &[], 0); control::WORDS];
    for (at, v) in [
        (control::PAST, past),
        (control::LEN, one),
        (control::TOKEN, id.clone()),
        (control::STEP, step),
        (control::DONE, done),
        (control::LIMIT, limit),
        (control::RING, ring),
        (control::CAPACITY, capacity),
    ] {
        next[at] = v;
    }
    let next: Vec<V> = next.iter().map(|v| b.reshape(v, &[1])).collect();
    b.concat(&next, 0)
}
