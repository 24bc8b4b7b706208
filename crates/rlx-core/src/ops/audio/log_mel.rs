//! Logarithms of mel energies of a waveform: the front end of Whisper and its kind.

use crate::error::{Error, Result};
use crate::math;
use crate::ops::def::slide::slide;
use crate::ops::def::writing::tables::LARGEST;
use crate::ops::{
    Binary, Class, Emit, Operator, Pad, PadMode, Reduction, Unary, arity, attributes, float_tensor,
    named,
};
use crate::types::{DType, Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Which logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Log {
    /// To base e.
    Ln,
    /// To base 10.
    Log10,
}

impl Log {
    const ALL: [(Log, &'static str); 2] = [(Log::Ln, "ln"), (Log::Log10, "log10")];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The logarithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

named!(Log, "logarithm");

/// `log_mel x [.., T], window [n], filters [mels, n / 2 + 1] -> [.., mels, frames]`.
///
/// Frame t is the n samples from `t * hop` on; `center` puts `n / 2` mirrored samples before the
/// first and behind the last, so that frame t lies around sample `t * hop`.
///
/// 1. `power[b, t] = |sum over j of window[j] * frame[t, j] * exp(-2 pi i j b / n)|^2`
/// 2. `y[m, t] = log(max(sum over b of filters[m, b] * power[b, t], floor))`
/// 3. with `range`: `y = max(y, max over all of the row's y - range)`
/// 4. `y * gain + offset`
///
/// [`whisper`](Self::whisper) has Whisper's numbers. Models of the wav2vec 2.0 family read the
/// waveform itself and need no such operator.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMel {
    /// Samples between frames, 1 or more.
    pub hop: u64,
    /// Whether frames are centred, with mirrored samples at the ends.
    pub center: bool,
    /// Whether the last frame is left out.
    pub drop_last: bool,
    /// Which logarithm.
    pub log: Log,
    /// Energies below it count as this much.
    pub floor: f32,
    /// How far below the row's largest value a value may be, in logarithms.
    pub range: Option<f32>,
    /// The factor of step 4.
    pub gain: f32,
    /// The summand of step 4.
    pub offset: f32,
}

attributes! { LogMel { hop, center, drop_last, log, floor, range, gain, offset } }

impl LogMel {
    /// Whisper's front end: hops of 160 samples, centred frames without the last, log10 of
    /// energies above 1e-10 within 8 of the largest, then `(y + 4) / 4`.
    pub fn whisper() -> LogMel {
        LogMel {
            hop: 160,
            center: true,
            drop_last: true,
            log: Log::Log10,
            floor: 1e-10,
            range: Some(8.0),
            gain: 0.25,
            offset: 1.0,
        }
    }

    /// How many frames `samples` give, with `n` in the window.
    pub(crate) fn frames(&self, samples: &Dim, n: u64) -> Result<Dim> {
        let side = if self.center { n / 2 } else { 0 };
        // One frame less is a window longer by one step.
        let reach = if self.drop_last { n.saturating_add(self.hop) } else { n };
        if self.hop == 0 {
            return Err(Error::bad_graph("log_mel: hop is 0, expected 1 or more"));
        }
        slide(samples, 2 * side, reach, self.hop).map_err(|e| {
            let what = format!("log_mel: {samples} samples; {}", e.what);
            Error { what, ..e }
        })
    }
}

impl Operator for LogMel {
    const NAME: &'static str = "log_mel";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("log_mel", operands, 3)?;
        let (x, window, filters) = (operands[0], operands[1], operands[2]);
        float_tensor("log_mel", "x", x)?;
        let no = |why: &str| {
            Err(Error::bad_graph(format!(
                "log_mel: x is {x}, window is {window}, filters is {filters}; {why}"
            )))
        };
        if [window, filters].iter().any(|t| t.dtype != x.dtype || t.kind != x.kind) {
            return no("expected tensors of one element type");
        }
        let ([lead @ .., samples], [n], [mels, bins]) =
            (x.shape.0.as_slice(), window.shape.0.as_slice(), filters.shape.0.as_slice())
        else {
            return no("expected [.., T], [n] and [mels, n / 2 + 1]");
        };
        let Some(n) = n.as_static().filter(|&n| n > 0 && n < 1 << 31) else {
            return no("the window needs a length below 2^31");
        };
        if *bins != Dim::from(n / 2 + 1) {
            return no(&format!("filters needs {} columns", n / 2 + 1));
        }
        if self.center && samples.as_static().is_some_and(|t| t <= n / 2) {
            return no(&format!("mirroring needs more than {} samples", n / 2));
        }
        let mut dims = lead.to_vec();
        dims.extend([mels.clone(), self.frames(samples, n)?]);
        Ok(vec![Type::tensor(x.dtype, Shape(dims))])
    }

    /// Frames are gathered and multiplied with cosines and sines. `None` for a symbolic number of
    /// samples, and for windows of more than 1024.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, window, filters] = operands else { return Ok(None) };
        let (dtype, axis) = (e.ty(x).dtype, e.dims(x).len() - 1);
        let (samples, n) = (e.ty(x).shape.last(), e.ty(window).shape.last());
        let (Some(n), Some(_)) = (n.as_static().filter(|&n| n <= 1024), samples.as_static()) else {
            return Ok(None);
        };
        let Some(frames) = self.frames(&samples, n)?.as_static() else { return Ok(None) };
        if frames.saturating_mul(n) > LARGEST {
            return Ok(None);
        }
        let (mut x, window, filters) = (e.wide(x)?, e.wide(window)?, e.wide(filters)?);
        let wide = e.ty(x).dtype;
        if self.center {
            let mut ends = vec![0; axis + 1];
            ends[axis] = n / 2;
            x = e.one(Pad { low: ends.clone(), high: ends, mode: PadMode::Reflect }, &[x])?;
        }
        let ids: Vec<f64> =
            (0..frames).flat_map(|t| (0..n).map(move |j| (t * self.hop + j) as f64)).collect();
        let ids = e.constant(DType::U32, &[frames, n], &ids)?;
        let x = e.gather(x, axis, ids)?;
        let x = e.mul(x, window)?;
        let bins = n / 2 + 1;
        let part = |e: &mut dyn Emit, f: fn(f64) -> f64| -> Result<ValueId> {
            let angle = |i: u64| core::f64::consts::TAU * (i / n * (i % n) % n) as f64 / n as f64;
            let waves: Vec<f64> = (0..bins * n).map(|i| f(angle(i))).collect();
            let waves = e.constant(wide, &[bins, n], &waves)?;
            let y = e.matmul(x, waves, true)?;
            e.mul(y, y)
        };
        let (re, im) = (part(e, math::cos)?, part(e, math::sin)?);
        let power = e.add(re, im)?;
        let y = e.matmul(filters, power, true)?;
        let y = e.zip_number(Binary::Max, y, f64::from(self.floor))?;
        let mut y = e.map(Unary::Log, y)?;
        if self.log == Log::Log10 {
            y = e.zip_number(Binary::Mul, y, core::f64::consts::LOG10_E)?;
        }
        if let Some(range) = self.range {
            let most = e.reduce(Reduction::Max, y, &[axis, axis + 1])?;
            let least = e.zip_number(Binary::Sub, most, f64::from(range))?;
            y = e.zip(Binary::Max, y, least)?;
        }
        let y = e.zip_number(Binary::Mul, y, f64::from(self.gain))?;
        let y = e.zip_number(Binary::Add, y, f64::from(self.offset))?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}
