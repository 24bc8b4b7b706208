// logits, as keys and as distances

// Four words, twice: a thread has eight loads on their way at once, for one after the other each
// waits for memory alone.
struct Eight { a: vec4u, b: vec4u }

fn at(eight: Eight, i: u32) -> u32 { return select(eight.b, eight.a, i < 4u)[i & 3u]; }

// The indices first, first + stride, ...
fn indices(first: u32, stride: u32) -> Eight {
    let a = vec4u(first) + stride * vec4u(0u, 1u, 2u, 3u);
    return Eight(a, a + vec4u(4u * stride));
}

// The id at an index: of `items` ids, all of them or those of the list.
fn id_of(index: u32, items: u32) -> u32 {
    if items == step.vocab { return index; }
    return list[min(index, items - 1u)];
}

fn ids_of(index: Eight, items: u32) -> Eight {
    if items == step.vocab { return index; }
    let a = index.a;
    let b = index.b;
    return Eight(
        vec4u(id_of(a.x, items), id_of(a.y, items), id_of(a.z, items), id_of(a.w, items)),
        vec4u(id_of(b.x, items), id_of(b.y, items), id_of(b.z, items), id_of(b.w, items)));
}

// A logit after penalties and bias; `word` is its id's of counts.
fn penalised(bits: u32, word: u32) -> u32 {
    if word == 0u { return bits; }
    let logit = bitcast<f32>(bits);
    var less = logit;
    if (word & OCCURS) != 0u {
        less *= bitcast<f32>(params[select(REPETITION, REPETITION_RECIPROCAL, logit > 0.0)]);
    }
    let n_generated = word & GENERATED;
    if n_generated > 0u {
        let frequency = bitcast<f32>(params[FREQUENCY]);
        less -= frequency * f32(n_generated) + bitcast<f32>(params[PRESENCE]);
    }
    less += f32(bitcast<i32>(word) >> 16u) * 0.00390625;
    return bitcast<u32>(less);
}

// Whether tokens may be chosen.
fn allowed(ids: vec4u) -> vec4<bool> {
    if params[MASKED] == 0u { return vec4<bool>(true); }
    let at = ids / 32u + vec4u(MASK);
    let words = vec4u(params[at.x], params[at.y], params[at.z], params[at.w]);
    return ((words >> (ids % 32u)) & vec4u(1u)) != vec4u(0u);
}

// The logits of these ids after penalties, as keys; 0 past the last id and for those that are masked.
fn four_keys(ids: vec4u) -> vec4u {
    let i = min(ids, vec4u(step.vocab - 1u));
    let l = i / 4u + vec4u(step.quads_at);
    let c = i % 4u;
    let bits = bitcast<vec4u>(vec4f(arena[l.x][c.x], arena[l.y][c.y], arena[l.z][c.z], arena[l.w][c.w]));
    let raw = select(key_of(bits), vec4u(0u), ids >= vec4u(step.vocab));
    if is_plain { return raw; }
    let may = select(vec4u(0u), raw, allowed(i));
    if params[PENALTIES] == 0u { return may; }
    let w = vec4u(counts[i.x], counts[i.y], counts[i.z], counts[i.w]);
    let less = key_of(vec4u(penalised(bits.x, w.x), penalised(bits.y, w.y), penalised(bits.z, w.z),
        penalised(bits.w, w.w)));
    return select(less, vec4u(0u), may == vec4u(0u));
}

// The logits of four ids from 4 * quad on, without penalties.
fn plain_quad(quad: u32) -> vec4f {
    return arena[step.quads_at + min(quad, (step.vocab - 1u) / 4u)];
}

// The same as keys; 0 past the last id.
fn keys_of_quad(quad: u32, logits: vec4f) -> vec4u {
    let ids = vec4u(4u * quad) + vec4u(0u, 1u, 2u, 3u);
    return select(key_of(bitcast<vec4u>(logits)), vec4u(0u), ids >= vec4u(step.vocab));
}

// After penalties and mask.
fn quad_keys(quad: u32) -> vec4u {
    if is_plain { return keys_of_quad(quad, plain_quad(quad)); }
    return four_keys(vec4u(4u * quad) + vec4u(0u, 1u, 2u, 3u));
}

// How far logits are below the largest, in 2^-16 octaves of weight, at most FAR. The gap stops at
// 2^25, which any scale brings to FAR, so that the product is finite.
fn distances_of(keys: vec4u) -> vec4u {
    let gap = min(vec4f(max_logit) - logits_of(keys), vec4f(33554432.0));
    let q = vec4u(min(gap * bitcast<f32>(params[SCALE]), vec4f(2097152.0)));
    return select(q, vec4u(FAR), keys == vec4u(0u));
}

// The distances of ids; NONE where the index is `end` or more.
fn distances(ids: Eight, index: Eight, end: u32) -> Eight {
    let none = vec4u(NONE);
    return Eight(select(distances_of(four_keys(ids.a)), none, index.a >= vec4u(end)),
        select(distances_of(four_keys(ids.b)), none, index.b >= vec4u(end)));
}

fn distance_of(id: u32) -> u32 { return distances_of(four_keys(vec4u(id))).x; }
