//! Operations with blocks of their own: loops, branches, orders.

use super::{Builder, V, names, types};
use std::collections::HashMap;

impl Builder {
    /// Opens a block with these parameters.
    pub(super) fn open(&mut self, params: &[V]) {
        let params: Vec<String> =
            params.iter().map(|p| format!("{}: {}", p.name, p.ty())).collect();
        self.line(&format!("^bb0({}):", params.join(", ")));
        self.depth += 1;
        self.constants.push(HashMap::new());
    }

    /// Ends it with these results.
    pub(super) fn close(&mut self, results: &[V]) {
        match results {
            [] => self.line("stablehlo.return"),
            some => self.line(&format!("stablehlo.return {} : {}", names(some), types(some))),
        }
        self.depth -= 1;
        self.constants.pop();
    }

    /// Sorts tensors along an axis by `before` of two elements of each; equal ones keep their order.
    pub fn sort(
        &mut self,
        all: &[V],
        axis: usize,
        before: impl FnOnce(&mut Builder, &[[V; 2]]) -> V,
    ) -> Vec<V> {
        let results = self.results(all);
        self.line(&format!(
            "{} = \"stablehlo.sort\"({}) <{{dimension = {axis} : i64, is_stable = true}}> ({{",
            self.bundle(&results),
            names(all)
        ));
        let pairs: Vec<[V; 2]> =
            all.iter().map(|v| [self.value(v.el, &[]), self.value(v.el, &[])]).collect();
        let flat: Vec<V> = pairs.iter().flatten().cloned().collect();
        self.open(&flat);
        let first = before(self, &pairs);
        self.close(&[first]);
        self.line(&format!("}}) : ({}) -> ({})", types(all), types(all)));
        results
    }

    /// Values that one line defines together.
    fn results(&mut self, like: &[V]) -> Vec<V> {
        let name = format!("%{}", self.next);
        self.next += 1;
        let each = |(i, v): (usize, &V)| {
            let name = if like.len() == 1 { name.clone() } else { format!("{name}#{i}") };
            V { name, dims: v.dims.clone(), el: v.el }
        };
        like.iter().enumerate().map(each).collect()
    }

    /// How their line names them: `%5:2`.
    fn bundle(&self, results: &[V]) -> String {
        match results {
            [one] => one.name.clone(),
            all => format!("{}:{}", all[0].name.split('#').next().unwrap_or_default(), all.len()),
        }
    }

    /// Repeats `body` over values as long as `condition` of them holds.
    pub fn repeat_while(
        &mut self,
        start: &[V],
        condition: impl FnOnce(&mut Builder, &[V]) -> V,
        body: impl FnOnce(&mut Builder, &[V]) -> Vec<V>,
    ) -> Vec<V> {
        let results = self.results(start);
        self.line(&format!(
            "{} = \"stablehlo.while\"({}) ({{",
            self.bundle(&results),
            names(start)
        ));
        let params: Vec<V> = start.iter().map(|v| self.value(v.el, &v.dims)).collect();
        self.open(&params);
        let goes_on = condition(self, &params);
        self.close(&[goes_on]);
        self.line("}, {");
        let params: Vec<V> = start.iter().map(|v| self.value(v.el, &v.dims)).collect();
        self.open(&params);
        let next = body(self, &params);
        self.close(&next);
        self.line(&format!("}}) : ({}) -> ({})", types(start), types(start)));
        results
    }

    /// The results of one of two branches, both of the types of `like`.
    pub fn either(
        &mut self,
        which: &V,
        like: &[V],
        yes: impl FnOnce(&mut Builder) -> Vec<V>,
        no: impl FnOnce(&mut Builder) -> Vec<V>,
    ) -> Vec<V> {
        let results = self.results(like);
        self.line(&format!("{} = \"stablehlo.if\"({}) ({{", self.bundle(&results), which.name));
        self.enter();
        let values = yes(self);
        self.close(&values);
        self.line("}, {");
        self.enter();
        let values = no(self);
        self.close(&values);
        self.line(&format!("}}) : ({}) -> ({})", which.ty(), types(like)));
        results
    }

    /// Opens a block without parameters.
    fn enter(&mut self) {
        self.depth += 1;
        self.constants.push(HashMap::new());
    }
}
