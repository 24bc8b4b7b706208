// 32 {{format}} of the row at byte `row` of {{b}}.
fn decode_{{format}}_{{b}}(row: u32, chunk: u32) -> Weights {
    let byte = row + chunk * 64u;
    let a = words4_{{b}}(byte);
    let b = words4_{{b}}(byte + 16u);
    let c = words4_{{b}}(byte + 32u);
    let d = words4_{{b}}(byte + 48u);
    return Weights({{pair}}(a.xy), {{pair}}(a.zw), {{pair}}(b.xy), {{pair}}(b.zw),
        {{pair}}(c.xy), {{pair}}(c.zw), {{pair}}(d.xy), {{pair}}(d.zw));
}
