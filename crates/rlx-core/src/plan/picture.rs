//! The arena as a picture: time across, bytes up, one rectangle a buffer.
//!
//! SVG of 1200 x 600, readable on light and on dark pages. A rectangle's colour is the family of the
//! operator that writes it; pointing at it shows its label, type, bytes and steps. Two lines show
//! the arena's height and the largest live set, which is a lower bound.

use super::lifetimes::{Lifetime, lifetimes};
use crate::error::Result;
use crate::ir::lir::Program;
use crate::ops::{Class, Op};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 600.0;
/// The plot's edges.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 1176.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 548.0;

/// Families of operators in the legend's order, with colours that people with red-green blindness can
/// distinguish.
const FAMILIES: [(&str, &str); 6] = [
    ("products", "#4477aa"),
    ("attention, positions", "#ee7733"),
    ("norms, reductions", "#228866"),
    ("elementwise", "#b5851d"),
    ("movement", "#aa6699"),
    ("other", "#8899a6"),
];

const STYLE: &str = "\
.page{fill:#ffffff}text{font:13px system-ui,sans-serif;fill:#1f2933}.small{font-size:11px}\
.title{font-size:16px;font-weight:600}.grid{stroke:#9aa5b1;stroke-opacity:.3}\
.buffer{stroke:#ffffff;stroke-width:.6}.in{fill:#ffffff;font-size:11px;pointer-events:none}\
.arena{stroke:#1f2933}.live{stroke:#cc3344;stroke-dasharray:6 4}.livetext{fill:#cc3344}\
@media(prefers-color-scheme:dark){.page{fill:#10161d}text{fill:#e4e9ee}\
.buffer{stroke:#10161d}.in{fill:#ffffff}.arena{stroke:#e4e9ee}.live{stroke:#ff7788}\
.livetext{fill:#ff7788}}";

/// Draws a program's arena.
///
/// # Errors
/// `BadGraph` where the program's steps are not its graph's nodes.
pub fn picture(program: &Program) -> Result<String> {
    let lifetimes = lifetimes(program)?;
    let plot =
        Plot { steps: program.steps.len().max(1) as f64, bytes: program.arena_bytes.max(1) as f64 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    let title = format!(
        "@{}: {} buffers in {} of arena, {} saved by sharing",
        program.name,
        lifetimes.len(),
        size(program.arena_bytes),
        size(program.bytes_saved())
    );
    text(&mut svg, LEFT, 32.0, "title", "start", &title);
    legend(&mut svg, program, &lifetimes);
    plot.axes(&mut svg);
    for life in &lifetimes {
        plot.buffer(&mut svg, program, life);
    }
    plot.lines(&mut svg, program, &lifetimes);
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Index into [`FAMILIES`].
fn family(op: &Op) -> usize {
    let name = op.name();
    let is = |words: &[&str]| words.iter().any(|w| name.contains(w));
    match op.class() {
        _ if is(&["attention", "sdpa", "rope", "kv_"]) => 1,
        Class::Compute => 0,
        Class::Reduction => 2,
        Class::Elementwise => 3,
        Class::Movement => 4,
        Class::Boundary => 5,
    }
}

struct Plot {
    steps: f64,
    bytes: f64,
}

impl Plot {
    fn x(&self, step: f64) -> f64 {
        LEFT + step / self.steps * (RIGHT - LEFT)
    }

    fn y(&self, byte: f64) -> f64 {
        BOTTOM - byte / self.bytes * (BOTTOM - TOP)
    }

    fn axes(&self, svg: &mut String) {
        let step = nice(self.bytes / 6.0, 1024.0);
        let mut at = 0.0;
        while at <= self.bytes {
            let y = self.y(at);
            line(svg, "grid", (LEFT, y), (RIGHT, y));
            text(svg, LEFT - 8.0, y + 4.0, "small", "end", &size(at as u64));
            at += step;
        }
        let step = nice(self.steps / 12.0, 10.0).max(1.0);
        let mut at = 0.0;
        while at <= self.steps {
            let x = self.x(at);
            line(svg, "grid", (x, BOTTOM), (x, BOTTOM + 5.0));
            text(svg, x, BOTTOM + 19.0, "small", "middle", &format!("{at}"));
            at += step;
        }
        text(svg, RIGHT, BOTTOM + 38.0, "small", "end", "steps, in the order they run →");
        text(svg, LEFT, BOTTOM + 38.0, "small", "start", "↑ bytes of the arena");
    }

    fn buffer(&self, svg: &mut String, program: &Program, life: &Lifetime) {
        let Some(step) = program.steps.get(life.from) else { return };
        let to = (life.to as f64 + 1.0).min(self.steps);
        let (x, y) = (self.x(life.from as f64), self.y(life.end() as f64));
        let width = (self.x(to) - x).max(0.5);
        let height = (self.y(life.offset as f64) - y).max(0.5);
        let name = if step.label.is_empty() { step.op.name() } else { &step.label };
        let ty = program.graph.ty(life.value);
        let until = match program.steps.get(life.to) {
            Some(last) => format!("step {} {}", life.to, last.label),
            None => "the end: it is an output".into(),
        };
        let tip = format!(
            "{name}\n{} : {ty}\n{} bytes at {}\nwritten at step {}, needed until {until}",
            step.op.name(),
            life.bytes,
            life.offset,
            life.from,
        );
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<rect class=\"buffer\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"><title>{}</title></rect>",
            FAMILIES[family(&step.op)].1,
            escaped(&tip)
        );
        let fits = name.chars().count() as f64 * 6.2 + 8.0 <= width;
        if fits && height >= 13.0 {
            text(svg, x + width / 2.0, y + height / 2.0 + 4.0, "in", "middle", name);
        }
    }

    /// The arena's height, its segments, and the largest live set.
    fn lines(&self, svg: &mut String, program: &Program, lifetimes: &[Lifetime]) {
        let mut at = 0;
        for bytes in &program.arena_segments {
            at += bytes;
            line(svg, "arena", (LEFT, self.y(at as f64)), (RIGHT, self.y(at as f64)));
        }
        let mut live = vec![0u64; program.steps.len() + 1];
        for life in lifetimes {
            // Values that are changed in place are one buffer.
            let heir = |l: &&Lifetime| l.in_place == Some(life.value) && l.from == life.to;
            let shared = lifetimes.iter().any(|l| heir(&l) && l.offset == life.offset);
            let end = if shared { life.to } else { (life.to + 1).min(live.len()) };
            live[life.from..end.max(life.from)].iter_mut().for_each(|n| *n += life.bytes);
        }
        let most = program.largest_live_bytes;
        let peak = (0..live.len()).max_by_key(|&s| (live[s], core::cmp::Reverse(s))).unwrap_or(0);
        let y = self.y(most as f64);
        line(svg, "live", (LEFT, y), (RIGHT, y));
        let label = program.steps.get(peak).map_or("", |s| s.label.as_str());
        let said = format!("largest live set: {} at step {peak} {label}", size(most));
        text(svg, LEFT + 4.0, TOP - 8.0, "livetext", "start", &said);
        let said = format!("arena: {}", size(program.arena_bytes));
        text(svg, RIGHT, TOP - 8.0, "", "end", &said);
    }
}

/// Families that occur, right of the title's line.
fn legend(svg: &mut String, program: &Program, lifetimes: &[Lifetime]) {
    let mut occurs = [false; FAMILIES.len()];
    for step in lifetimes.iter().filter_map(|l| program.steps.get(l.from)) {
        occurs[family(&step.op)] = true;
    }
    let mut x = LEFT;
    for ((name, colour), _) in FAMILIES.iter().zip(occurs).filter(|f| f.1) {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"46\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>"
        );
        text(svg, x + 18.0, 57.0, "", "start", name);
        x += 18.0 + name.chars().count() as f64 * 7.0 + 22.0;
    }
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, anchor: &str, said: &str) {
    let said = escaped(said);
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{said}</text>"
    );
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// A round step at or above `least`: 1, 2 or 5 times a power of ten, of kibibytes or mebibytes where
/// `base` is 1024.
fn nice(least: f64, base: f64) -> f64 {
    let mut unit = 1.0;
    while least > unit * base && base > 10.0 {
        unit *= base;
    }
    let steps: Vec<f64> = (0..6).flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * ten(p) * unit)).collect();
    steps.into_iter().find(|&s| s >= least).unwrap_or(least)
}

fn ten(power: u32) -> f64 {
    (0..power).fold(1.0, |n, _| n * 10.0)
}

/// `640 B`, `1.5 KiB`, `20 MiB`.
fn size(bytes: u64) -> String {
    let (mut n, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB"] {
        if n < 1024.0 {
            break;
        }
        (n, unit) = (n / 1024.0, next);
    }
    match n {
        _ if n >= 100.0 || n == (n as u64) as f64 => format!("{n:.0} {unit}"),
        _ => format!("{n:.1} {unit}"),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::mir::{Graph, ParamKind};
    use crate::ops::{Binary, Map, Unary, Zip};
    use crate::plan::plan;
    use crate::target::{CompileOptions, Target};
    use crate::types::{DType, Shape, Type};

    #[test]
    fn every_buffer_is_a_rectangle_that_says_what_it_is() {
        let mut g = Graph::new("f");
        let x = g.param(ParamKind::Input, "x", Type::tensor(DType::F32, Shape::of(&[1000])));
        let a = g.push1(Map { f: Unary::Exp }, &[x], "a<&>").unwrap();
        let b = g.push1(Map { f: Unary::Tanh }, &[x], "b").unwrap();
        let c = g.push1(Zip { f: Binary::Add }, &[a, b], "c").unwrap();
        g.output("a", a);
        g.output("y", c);
        let p = plan(g, &[], &Target::reference(), &CompileOptions::default()).unwrap();
        let svg = picture(&p).unwrap();
        assert_eq!(svg.matches("class=\"buffer\"").count(), 3);
        let tip = "<title>a&lt;&amp;&gt;\nmap : tensor&lt;1000xf32&gt;\n4000 bytes at 0\nwritten at step 0, needed until the end: it is an output</title>";
        assert!(svg.contains(tip), "{svg}");
        assert!(svg.contains("largest live set: 11.7 KiB at step 2 c"), "{svg}");
        assert!(svg.contains("arena: 11.8 KiB"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn a_program_without_buffers_is_drawn_too() {
        let p = plan(Graph::new("f"), &[], &Target::reference(), &CompileOptions::default());
        assert!(picture(&p.unwrap()).unwrap().contains("0 buffers in 0 B of arena"));
    }

    #[test]
    fn ticks_are_round() {
        let kib = 1024.0;
        assert_eq!([3.0, 70.0, 1.5 * kib].map(|n| nice(n, kib)), [5.0, 100.0, 2.0 * kib]);
        assert_eq!([0.4, 7.0, 12.0].map(|n| nice(n, 10.0)), [1.0, 10.0, 20.0]);
        assert_eq!([0, 1023, 1536, 20 << 20].map(size), ["0 B", "1023 B", "1.5 KiB", "20 MiB"]);
    }
}
