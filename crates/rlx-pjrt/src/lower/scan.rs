//! Running sums.

use super::builder::{Builder, V};

/// Elements of a block, whose sums are computed each by itself.
const BLOCK: u64 = 64;

/// Sums of all elements of each row `[rows, n]` up to each.
///
/// Blocks first, then the sums of whole blocks in the same way: as many levels as the length has digits.
pub(super) fn running(b: &mut Builder, x: &V) -> V {
    let (rows, n) = (x.dims[0], x.dims[1]);
    let width = n.min(BLOCK);
    if rows == 0 || n == 0 {
        return x.clone();
    }
    let blocks = n.div_ceil(width);
    let zero = b.scalar(x.el, 0.0);
    let padded = b.pad(x, &zero, &[0, 0], &[0, (blocks * width - n) as i64], &[0, 0]);
    let dims = [rows, blocks, width];
    let apart = b.reshape(&padded, &dims);
    let within = b.windows("add", &apart, 0.0, &[1, 1, width], &[0, 0, width - 1]);
    let sums = match blocks {
        1 => within,
        _ => {
            let whole = b.part(&within, 2, width - 1, 1);
            let whole = b.reshape(&whole, &[rows, blocks]);
            // Sums of the blocks before each.
            let before = b.part(&whole, 1, 0, blocks - 1);
            let before = b.pad(&before, &zero, &[0, 1], &[0, 0], &[0, 0]);
            let before = running(b, &before);
            let before = b.repeat(&before, &dims, &[0, 1]);
            b.add(&within, &before)
        }
    };
    let sums = b.reshape(&sums, &[rows, blocks * width]);
    b.part(&sums, 1, 0, n)
}

/// The same of one vector.
pub(super) fn running_of(b: &mut Builder, x: &V) -> V {
    let row = b.reshape(x, &[1, x.dims[0]]);
    let sums = running(b, &row);
    b.reshape(&sums, &x.dims)
}
