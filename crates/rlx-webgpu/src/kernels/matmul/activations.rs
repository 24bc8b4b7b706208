//! How matmul kernels read x: f32, or the blocks of integers that `quantize_rows` makes.

use super::Parts;
use crate::kernels::emit::fill;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Error, Result};

/// How x lies in blocks.
struct Blocks {
    /// Bytes of a block, and those before its quants.
    bytes: usize,
    before: usize,
}

/// Four signed bytes times four; the second form, over `common.wgsl`, where WGSL lacks the first.
pub(super) fn dot4(packed: bool) -> &'static str {
    if packed {
        "fn dot4(a: u32, b: u32) -> i32 { return dot4I8Packed(a, b); }\n"
    } else {
        "fn dot4(a: u32, b: u32) -> i32 {\n    \
         let p = signed(a) * signed(b);\n    return p.x + p.y + p.z + p.w;\n}\n"
    }
}

impl Parts {
    /// `fn raw_x(at, left) -> vec4f`: four elements of x from word `at` on, those from `left` on 0.
    fn raw_x(&self) -> String {
        let x = &self.x.var;
        if self.ragged() {
            format!(
                "fn raw_x(at: u32, left: u32) -> vec4f {{\n    \
                 let v = bitcast<vec4f>(vec4u({x}[at], {x}[at + 1u], {x}[at + 2u], {x}[at + 3u]));\n    \
                 return select(vec4f(0.0), v, vec4u(0u, 1u, 2u, 3u) < vec4u(left));\n}}\n"
            )
        } else {
            format!(
                "fn raw_x(at: u32, left: u32) -> vec4f {{\n    \
                 return bitcast<vec4f>(vec4u({x}[at], {x}[at + 1u], {x}[at + 2u], {x}[at + 3u]));\n}}\n"
            )
        }
    }

    /// `fn norm_at(e) -> vec4f`: four weights of the norm from element `e` on, or ones. Past the
    /// row's end x is 0, so what stands there does not matter; but it must be no NaN.
    fn norm_at(&self) -> String {
        match &self.norm {
            None => "fn norm_at(e: u32) -> vec4f { return vec4f(1.0); }\n".into(),
            Some((place, _)) => {
                let n = &place.var;
                let end = if self.ragged() {
                    "return select(vec4f(0.0), v, vec4u(e, e + 1u, e + 2u, e + 3u) < vec4u(step.k));"
                } else {
                    "return v;"
                };
                format!(
                    "fn norm_at(e: u32) -> vec4f {{\n    let i = step.norm + e;\n    \
                     let v = bitcast<vec4f>(vec4u({n}[i], {n}[i + 1u], {n}[i + 2u], {n}[i + 3u]));\n    \
                     {end}\n}}\n"
                )
            }
        }
    }

    /// The blocks of x.
    fn blocks(&self) -> Result<Blocks> {
        let (bytes, before) = match self.x_type {
            DType::Block(BlockFormat::Q8_0) => (34, 2),
            DType::Block(BlockFormat::Q15_0) => (68, 4),
            other => return Err(Error::internal(format!("a matmul of {other} activations"))),
        };
        Ok(Blocks { bytes, before })
    }

    /// Parts of an integer of x: two for int16.
    pub(super) fn x_parts(&self) -> u64 {
        if self.x_type == DType::Block(BlockFormat::Q15_0) { 2 } else { 1 }
    }

    /// For the tile kernel: `fn quad_x(m, e) -> vec4f`, elements `e..e + 4` of row `m` of x,
    /// before the norm, and `norm_at`.
    pub(super) fn quads(&self) -> Result<String> {
        if self.x_type == DType::F32 {
            return Ok(self.raw_x()
                + &self.norm_at()
                + "fn quad_x(m: u32, e: u32) -> vec4f {\n    \
                   return raw_x(step.x + m * step.k + e, max(step.k, e) - e);\n}\n");
        }
        let Blocks { bytes, before } = self.blocks()?;
        let x = &self.x.var;
        let scale = if before == 2 {
            format!("unpack2x16float({x}[block >> 2u] >> ((block & 2u) * 8u)).x")
        } else {
            format!("bitcast<f32>({x}[block >> 2u])")
        };
        let value = match self.x_parts() {
            1 => "bytes_of(q)".into(),
            _ => format!("(128.0 * bytes_of(q) + bytes_of({x}[i + 8u]))"),
        };
        Ok(self.norm_at()
            + &format!(
                "fn quad_x(m: u32, e: u32) -> vec4f {{\n    \
                 let chunk = e >> 5u;\n    \
                 let block = step.x + (m * step.chunks + chunk) * {bytes}u;\n    \
                 let byte = block + {before}u + (e & 31u);\n    \
                 let i = byte >> 2u;\n    let shift = (byte & 2u) * 8u;\n    \
                 let q = ({x}[i] >> shift) | (({x}[i + 1u] << 1u) << (31u - shift));\n    \
                 return {scale} * {value};\n}}\n"
            ))
    }

    /// Of x in blocks of integers `struct X` and `fn x_at(m, chunk) -> X`, a chunk of row `m`; `low_dots(w, x)`
    /// and `high_dots(w, x)`, its first and its last 16 elements by those of a weight; `idots` and `joined`.
    pub(super) fn int8_x(&self, packed_dot: bool) -> Result<String> {
        let Blocks { bytes, before } = self.blocks()?;
        let x = &self.x.var;
        let scale = if before == 2 { "half" } else { "float" };
        // Blocks of whole words have no word in two.
        let words = if before == 2 {
            format!(
                "let shift = (byte & 2u) * 8u;\n    \
                 let low = vec4u({x}[i], {x}[i + 1u], {x}[i + 2u], {x}[i + 3u]);\n    \
                 let high = vec4u(low.yzw, {x}[i + 4u]);\n    \
                 return (low >> vec4u(shift)) | ((high << vec4u(1u)) << vec4u(31u - shift));"
            )
        } else {
            format!("return vec4u({x}[i], {x}[i + 1u], {x}[i + 2u], {x}[i + 3u]);")
        };
        // Sums of the parts join as integers: 128 of the high one, and the low one.
        let (fields, read, low, high) = match self.x_parts() {
            1 => ("", "", "idots(w, x.low)", "idots(w, x.high)"),
            _ => (
                "low_part: vec4u, high_part: vec4u, ",
                "x_words(byte + 32u), x_words(byte + 48u), ",
                "joined(idots(w, x.low), idots(w, x.low_part))",
                "joined(idots(w, x.high), idots(w, x.high_part))",
            ),
        };
        Ok(format!(
            "{}struct X {{ low: vec4u, high: vec4u, {fields}scale: f32, sums: vec2f, squares: f32 }}\n\
             fn x_half(byte: u32) -> f32 {{\n    \
             return unpack2x16float({x}[byte >> 2u] >> ((byte & 2u) * 8u)).x;\n}}\n\
             fn x_float(byte: u32) -> f32 {{ return bitcast<f32>({x}[byte >> 2u]); }}\n\
             fn x_words(byte: u32) -> vec4u {{\n    let i = byte >> 2u;\n    {words}\n}}\n\
             fn idots(a: vec4u, b: vec4u) -> i32 {{\n    \
             return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);\n}}\n\
             fn joined(high: i32, low: i32) -> i32 {{ return 128 * high + low; }}\n\
             fn low_dots(w: vec4u, x: X) -> i32 {{ return {low}; }}\n\
             fn high_dots(w: vec4u, x: X) -> i32 {{ return {high}; }}\n\
             fn x_at(m: u32, chunk: u32) -> X {{\n    \
             let block = step.x + (m * step.chunks + chunk) * {bytes}u;\n    \
             let byte = block + {before}u;\n    \
             let ones = vec4u(0x01010101u);\n    \
             var x = X(x_words(byte), x_words(byte + 16u), {read}x_{scale}(block), vec2f(), 0.0);\n    \
             x.sums = vec2f(f32(low_dots(ones, x)), f32(high_dots(ones, x)));\n    return x;\n}}\n",
            dot4(packed_dot)
        ))
    }

    /// For the mat-vec: `struct X`, `fn load_x(chunk) -> X`, and `fn dot_<reader>(row, chunk, x)`
    /// for every reader of the step.
    pub(super) fn chunks_of_x(&self, packed_dot: bool) -> Result<String> {
        let mut text = String::new();
        let int8 = self.x_type != DType::F32;
        if int8 {
            text += &self.int8_x(packed_dot)?;
            // A product of one row has the first of x; experts' products say which.
            let row = if self.x_start == "x_row" { "x_row" } else { "0u" };
            text += &format!("fn load_x(chunk: u32) -> X {{ return x_at({row}, chunk); }}\n");
        } else {
            text += &self.raw_x();
            text += &self.norm_at();
            text += &fill(wgsl!("load_x.wgsl"), &[("start", self.x_start)]);
        }
        for s in self.readers_once() {
            let r = &s.reader;
            let packed = self.readers.text.contains(&format!("fn unpack_{r}("));
            let body = match (packed, int8) {
                (true, true) => format!(
                    "let w = unpack_{r}(row, chunk);\n    let sums = vec2i(low_dots(w.low, x), high_dots(w.high, x));\n    \
                     return x.scale * (dot(w.scale, vec2f(sums)) + dot(w.offset, x.sums));"
                ),
                (true, false) => format!("return dot_quants(unpack_{r}(row, chunk), x);"),
                (false, false) => format!("return dot_weights(decode_{r}(row, chunk), x);"),
                (false, true) => {
                    return Err(Error::internal("int8 activations meet an unpacked weight"));
                }
            };
            text += &format!("fn dot_{r}(row: u32, chunk: u32, x: X) -> f32 {{\n    {body}\n}}\n");
        }
        Ok(text)
    }
}
