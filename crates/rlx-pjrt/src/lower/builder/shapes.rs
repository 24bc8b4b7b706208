//! Operations that move elements.

use super::{Builder, V, list, names, ty, types};

impl Builder {
    pub fn reshape(&mut self, x: &V, dims: &[u64]) -> V {
        if x.dims == dims {
            return x.clone();
        }
        let what = format!("reshape {} : ({}) -> {}", x.name, x.ty(), ty(x.el, dims));
        self.emit(x.el, dims, &what)
    }

    /// Repeats `x`, whose axis `i` becomes axis `axes[i]`.
    pub fn repeat(&mut self, x: &V, dims: &[u64], axes: &[usize]) -> V {
        if x.dims == dims {
            return x.clone();
        }
        let what = format!(
            "broadcast_in_dim {}, dims = {} : ({}) -> {}",
            x.name,
            list(axes),
            x.ty(),
            ty(x.el, dims)
        );
        self.emit(x.el, dims, &what)
    }

    /// Repeats `x` as NumPy does: its axes are the last ones.
    pub fn repeat_last(&mut self, x: &V, dims: &[u64]) -> V {
        let first = dims.len().saturating_sub(x.dims.len());
        let axes: Vec<usize> = (first..dims.len()).collect();
        self.repeat(x, dims, &axes)
    }

    pub fn transpose(&mut self, x: &V, order: &[usize]) -> V {
        if order.iter().enumerate().all(|(i, &o)| i == o) {
            return x.clone();
        }
        let dims: Vec<u64> = order.iter().map(|&o| x.dims[o]).collect();
        let what = format!(
            "transpose {}, dims = {} : ({}) -> {}",
            x.name,
            list(order),
            x.ty(),
            ty(x.el, &dims)
        );
        self.emit(x.el, &dims, &what)
    }

    /// From where, to before where and in which steps, for each axis.
    pub fn slice(&mut self, x: &V, ranges: &[(u64, u64, u64)]) -> V {
        if ranges.iter().zip(&x.dims).all(|(r, &d)| *r == (0, d, 1)) {
            return x.clone();
        }
        let dims: Vec<u64> =
            ranges.iter().map(|&(a, b, s)| b.saturating_sub(a).div_ceil(s)).collect();
        let each = ranges.iter().map(|(a, b, s)| match s {
            1 => format!("{a}:{b}"),
            s => format!("{a}:{b}:{s}"),
        });
        let what = format!("slice {} {} : ({}) -> {}", x.name, list(each), x.ty(), ty(x.el, &dims));
        self.emit(x.el, &dims, &what)
    }

    /// `len` elements of one axis.
    pub fn part(&mut self, x: &V, axis: usize, start: u64, len: u64) -> V {
        let mut ranges: Vec<(u64, u64, u64)> = x.dims.iter().map(|&d| (0, d, 1)).collect();
        ranges[axis] = (start, start + len, 1);
        self.slice(x, &ranges)
    }

    pub fn concat(&mut self, parts: &[V], axis: usize) -> V {
        if let [one] = parts {
            return one.clone();
        }
        let mut dims = parts[0].dims.clone();
        dims[axis] = parts.iter().map(|p| p.dims[axis]).sum();
        let el = parts[0].el;
        let what = format!(
            "concatenate {}, dim = {axis} : ({}) -> {}",
            names(parts),
            types(parts),
            ty(el, &dims)
        );
        self.emit(el, &dims, &what)
    }

    /// Turns axes round.
    pub fn reverse(&mut self, x: &V, axes: &[usize]) -> V {
        let what = format!("reverse {}, dims = {} : {}", x.name, list(axes), x.ty());
        self.emit(x.el, &x.dims, &what)
    }

    /// Adds elements of `value`, a tensor without axes, before, behind and between those of each axis.
    pub fn pad(&mut self, x: &V, value: &V, low: &[i64], high: &[i64], between: &[i64]) -> V {
        let size = |i: usize| {
            let d = x.dims[i] as i64;
            (d + (d - 1).max(0) * between[i] + low[i] + high[i]).max(0) as u64
        };
        let dims: Vec<u64> = (0..x.dims.len()).map(size).collect();
        let what = format!(
            "pad {}, {}, low = {}, high = {}, interior = {} : ({}, {}) -> {}",
            x.name,
            value.name,
            list(low),
            list(high),
            list(between),
            x.ty(),
            value.ty(),
            ty(x.el, &dims)
        );
        self.emit(x.el, &dims, &what)
    }

    /// `x` from these indices on, which have no axes; they are moved so that the whole result lies in `x`.
    pub fn dynamic_slice(&mut self, x: &V, starts: &[V], sizes: &[u64]) -> V {
        let what = format!(
            "dynamic_slice {}, {}, sizes = {} : ({}, {}) -> {}",
            x.name,
            names(starts),
            list(sizes),
            x.ty(),
            types(starts),
            ty(x.el, sizes)
        );
        self.emit(x.el, sizes, &what)
    }

    /// `x` with `part` from these indices on, moved as those of [`dynamic_slice`](Self::dynamic_slice).
    pub fn dynamic_update(&mut self, x: &V, part: &V, starts: &[V]) -> V {
        let what = format!(
            "dynamic_update_slice {}, {}, {} : ({}, {}, {}) -> {}",
            x.name,
            part.name,
            names(starts),
            x.ty(),
            part.ty(),
            types(starts),
            x.ty()
        );
        self.emit(x.el, &x.dims, &what)
    }

    /// Slices of `x` along one axis at `ids`, whose shape stands for the axis; ids outside of it read the nearest.
    pub fn take(&mut self, x: &V, ids: &V, axis: usize) -> V {
        let (rank, extra) = (x.dims.len(), ids.dims.len());
        let mut dims = x.dims.clone();
        dims.splice(axis..=axis, ids.dims.iter().copied());
        let offset: Vec<usize> = (0..axis).chain(axis + extra..rank - 1 + extra).collect();
        let sizes: Vec<u64> =
            x.dims.iter().enumerate().map(|(i, &d)| if i == axis { d.min(1) } else { d }).collect();
        let what = format!(
            "{} = \"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, \
             collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = {extra}>, \
             slice_sizes = array<i64{}>}}> : ({}, {}) -> {}",
            "{}",
            x.name,
            ids.name,
            list(offset),
            sizes
                .iter()
                .enumerate()
                .map(|(i, d)| format!("{} {d}", if i == 0 { ":" } else { "," }))
                .collect::<String>(),
            x.ty(),
            ids.ty(),
            ty(x.el, &dims)
        );
        let v = self.value(x.el, &dims);
        self.line(&what.replacen("{}", &v.name, 1));
        v
    }

    /// Runs of `len` elements of `x`, which has one axis, from these elements on: `[starts, len]`. A run that would end
    /// outside is moved.
    pub fn take_runs(&mut self, x: &V, starts: &V, len: u64) -> V {
        let v = self.value(x.el, &[starts.dims[0], len]);
        self.line(&format!(
            "{} = \"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], \
             start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: {len}>}}> : ({}, {}) -> {}",
            v.name,
            x.name,
            starts.name,
            x.ty(),
            starts.ty(),
            v.ty()
        ));
        v
    }

    /// `x` with rows (axis 0) replaced, or with `add` increased, by those of `rows` at `ids`; rows of ids outside are
    /// dropped.
    pub fn scatter(&mut self, x: &V, ids: &V, rows: &V, add: bool) -> V {
        let window: Vec<usize> = (1..x.dims.len()).collect();
        let v = self.value(x.el, &x.dims);
        let ids = self.reshape(ids, &[ids.dims[0], 1]);
        self.line(&format!(
            "{} = \"stablehlo.scatter\"({}, {}, {}) <{{scatter_dimension_numbers = \
             #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [0], \
             scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{",
            v.name,
            x.name,
            ids.name,
            rows.name,
            list(window)
        ));
        let [old, new] = [self.value(x.el, &[]), self.value(x.el, &[])];
        self.open(&[old.clone(), new.clone()]);
        let kept = if add { self.add(&old, &new) } else { new };
        self.close(&[kept]);
        self.line(&format!("}}) : ({}, {}, {}) -> {}", x.ty(), ids.ty(), rows.ty(), x.ty()));
        v
    }
}
