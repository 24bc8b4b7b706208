//! Which GPUs take Metal 4's tensor operations.

/// Their name in lists of features.
pub const NAME: &str = "tensors";

/// Whether kernels may use tensor operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tensors {
    /// No: the GPU has no units of their own for them. Metal computes them there as it does matrices of a SIMD group,
    /// which our kernels have without them.
    #[default]
    None,
    /// No, although the GPU has the units: why.
    Refused(String),
    /// Yes.
    Used,
}

/// The macOS whose tensor operations our kernels were written for: major and minor version.
const SYSTEM: (isize, isize) = (26, 2);

impl Tensors {
    /// Those of a GPU: whether it is of the families Apple 10, which begin with the M5 and have matrix units, and
    /// Metal 4, which have the operations; and the system's major and minor version.
    pub fn of(apple10: bool, metal4: bool, system: (isize, isize)) -> Tensors {
        if !apple10 {
            Tensors::None
        } else if !metal4 || system < SYSTEM {
            Tensors::Refused(format!("they need macOS {}.{}", SYSTEM.0, SYSTEM.1))
        } else {
            Tensors::Used
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tensors;

    #[test]
    fn gpus_with_matrix_units_take_them() {
        for system in [(26, 2), (26, 10), (27, 0)] {
            assert_eq!(Tensors::of(true, true, system), Tensors::Used, "{system:?}");
            // The M4 and before have the operations without units.
            assert_eq!(Tensors::of(false, true, system), Tensors::None, "{system:?}");
        }
        let older = Tensors::Refused("they need macOS 26.2".into());
        for (metal4, system) in [(false, (26, 2)), (true, (26, 1)), (true, (15, 9))] {
            assert_eq!(Tensors::of(true, metal4, system), older, "{metal4} {system:?}");
        }
    }
}
