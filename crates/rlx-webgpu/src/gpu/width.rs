//! How many lanes a subgroup has. Kernels shuffle among as many: with fewer they are slow, with more they are wrong.
//!
//! A host names a range. Within it some GPUs have one width, some compilers choose one for each shader, and some
//! hosts name the widest range for every GPU: wgpu says 4 to 64 of all of Metal's, and a browser that hides what the
//! GPU is says 4 to 128.

use core::fmt;

/// More lanes than this make no difference to kernels.
pub const MOST: u32 = 32;

/// Who made a GPU, as far as that says more of its subgroups than the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Subgroups have 32 lanes.
    Apple,
    /// The compiler chooses 8, 16 or 32 lanes for each shader, by the registers that it takes.
    Intel,
    /// Nothing is known.
    Other,
}

/// The lanes of a GPU's subgroups, and how they are known. Ranges are what the host allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// There are no subgroups.
    #[default]
    None,
    /// The host allows one number only, or none that is too few.
    Fixed(u32),
    /// 32, as every GPU of Apple's has.
    Apple(u32, u32),
    /// Not known yet: a probe finds out. Until then the fewest count.
    Range(u32, u32),
    /// As every shader of the probe has found.
    Measured(u32, (u32, u32)),
    /// The fewest, because the compiler chooses for each shader.
    Fewest(u32, u32),
}

impl Width {
    /// What is known from the range of a host and the vendor.
    pub fn of(least: u32, most: u32, vendor: Vendor) -> Width {
        match vendor {
            _ if least == most || least >= MOST => Self::Fixed(least),
            Vendor::Apple => Self::Apple(least, most),
            Vendor::Intel => Self::Fewest(least, most),
            Vendor::Other => Self::Range(least, most),
        }
    }

    /// Lanes that every subgroup has at least, where there are subgroups.
    pub fn lanes(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Apple(..) => Some(32),
            Self::Fixed(lanes) | Self::Measured(lanes, _) => Some(lanes),
            Self::Range(least, _) | Self::Fewest(least, _) => Some(least),
        }
    }

    /// What the lanes that shaders found make of a range.
    pub(crate) fn measured(self, mut found: impl Iterator<Item = u32>) -> Width {
        let Self::Range(least, most) = self else { return self };
        match found.next() {
            Some(lanes)
                if lanes.is_power_of_two()
                    && (least..=most).contains(&lanes)
                    && found.all(|other| other == lanes) =>
            {
                Self::Measured(lanes, (least, most))
            }
            _ => Self::Fewest(least, most),
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = self.lanes().unwrap_or(1);
        write!(f, "{lanes} lanes")?;
        match self {
            Self::None | Self::Fixed(_) => Ok(()),
            Self::Apple(least, most) => {
                write!(f, ", as Apple's GPUs have (the driver says {least} to {most})")
            }
            Self::Measured(_, (least, most)) => {
                write!(f, ", as measured (the driver says {least} to {most})")
            }
            Self::Range(least, most) | Self::Fewest(least, most) => {
                write!(
                    f,
                    ", the fewest of {least} to {most}: its compiler may choose for each kernel"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fixed_or_known_is_not_measured() {
        for (least, most, vendor, lanes) in [
            (32, 32, Vendor::Other, 32),
            (8, 8, Vendor::Intel, 8),
            // AMD's and Qualcomm's compilers choose, among widths that are all enough.
            (32, 64, Vendor::Other, 32),
            (64, 128, Vendor::Other, 64),
            // wgpu on Metal, and a browser that says so of every GPU.
            (4, 64, Vendor::Apple, 32),
            (4, 128, Vendor::Apple, 32),
            (8, 32, Vendor::Intel, 8),
        ] {
            let width = Width::of(least, most, vendor);
            assert_eq!(width.lanes(), Some(lanes), "{width}");
            assert_eq!(width.measured([16].into_iter()), width, "nothing to measure");
        }
        assert_eq!(Width::None.lanes(), None);
    }

    #[test]
    fn a_range_is_measured_and_only_one_answer_counts() {
        let range = Width::of(4, 128, Vendor::Other);
        assert_eq!(range.lanes(), Some(4));
        for (found, lanes) in [
            (&[32, 32, 32][..], 32),
            (&[16, 16], 16),
            (&[32, 16, 32], 4),
            // No width, outside of the range, and nothing found.
            (&[24, 24], 4),
            (&[256], 4),
            (&[0], 4),
            (&[], 4),
        ] {
            assert_eq!(range.measured(found.iter().copied()).lanes(), Some(lanes), "{found:?}");
        }
        let texts = [range.measured([32].into_iter()), range.measured([].into_iter())];
        assert_eq!(
            texts.map(|t| t.to_string()),
            [
                "32 lanes, as measured (the driver says 4 to 128)",
                "4 lanes, the fewest of 4 to 128: its compiler may choose for each kernel",
            ]
        );
    }
}
