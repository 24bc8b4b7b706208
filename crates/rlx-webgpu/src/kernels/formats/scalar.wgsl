// 32 {{format}} elements of the row at byte `row` of {{b}}; those past the row's end are 0.
fn element_{{format}}_{{b}}(row: u32, e: u32) -> f32 {
    if e >= step.k { return 0.0; }
    return {{element}};
}
fn decode_{{format}}_{{b}}(row: u32, chunk: u32) -> Weights {
    var out: Weights;
    for (var i = 0u; i < 8u; i++) {
        let e = chunk * 32u + i * 4u;
        out[i] = vec4f(element_{{format}}_{{b}}(row, e), element_{{format}}_{{b}}(row, e + 1u),
            element_{{format}}_{{b}}(row, e + 2u), element_{{format}}_{{b}}(row, e + 3u));
    }
    return out;
}
