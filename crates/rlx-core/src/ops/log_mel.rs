//! Logarithms of mel energies of a waveform: the front end of Whisper and its kind.

use super::slide::slide;
use super::{Attrs, Class, Operator, arity, float_tensor};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type};
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

    fn attrs(&self) -> Attrs {
        let mut attrs = Attrs::none().int("hop", self.hop);
        for (name, flag) in [("center", self.center), ("drop_last", self.drop_last)] {
            attrs = attrs.when(name, flag);
        }
        attrs = attrs.name("log", self.log.name()).float("floor", self.floor);
        if let Some(range) = self.range {
            attrs = attrs.float("range", range);
        }
        attrs.float("gain", self.gain).float("offset", self.offset)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        let known = ["hop", "center", "drop_last", "log", "floor", "range", "gain", "offset"];
        attrs.only(&known)?;
        let name = attrs.get_name("log")?;
        let log = Log::from_name(name)
            .ok_or_else(|| Error::bad_graph(format!("log_mel: unknown logarithm {name}")))?;
        Ok(LogMel {
            hop: attrs.get_int("hop")?,
            center: attrs.flag("center")?,
            drop_last: attrs.flag("drop_last")?,
            log,
            floor: attrs.get_float("floor")?,
            range: attrs.opt_float("range")?,
            gain: attrs.get_float("gain")?,
            offset: attrs.get_float("offset")?,
        })
    }

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
}
