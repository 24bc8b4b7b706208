//! A chain of elementwise operators as one node: one launch, and no memory for what is between.

use super::{
    Alias, Attr, Attrs, Binary, Cast, Clamp, Class, Compare, Comparison, Emit, Field, Map, Op,
    Operator, RowUse, Select, Unary, Zip, attributes, broadcast,
};
use crate::error::{Error, Result};
use crate::types::{DType, Type, ValueId};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What one step computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepFn {
    /// `map`.
    Map(Unary),
    /// `zip`.
    Zip(Binary),
    /// `compare`.
    Compare(Comparison),
    /// `select`.
    Select,
    /// `clamp` between two bounds.
    Clamp(f32, f32),
    /// `cast` to a type.
    Cast(DType),
}

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOperand {
    /// An operand of the region.
    Input(usize),
    /// The result of an earlier step.
    Step(usize),
}

/// One operator of the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionStep {
    /// What it computes.
    pub f: StepFn,
    /// What it reads, in the operator's order.
    pub operands: Vec<StepOperand>,
}

/// `elementwise_region i0, i1, … -> the last step's result`, each step an elementwise operator of
/// inputs and earlier steps, every one of them read.
///
/// A step has the type its operator's rule gives, NumPy broadcasting included, and is rounded to
/// it: the region gives the bits of the chain. So every input broadcasts into the result, and
/// element `j` of the result depends on one element of each input.
///
/// ```text
/// elementwise_region %a, %b {steps = [[mul, i0, i1], [silu, s0], [clamp, s1, 0.0, 6.0]]}
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// The chain, at least one step.
    pub steps: Vec<RegionStep>,
}

attributes! { Region { steps } }

impl Field for Vec<RegionStep> {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        attrs.with(name, Attr::List(self.iter().map(RegionStep::attr).collect()))
    }

    fn take(_: &str, name: &str, attrs: &Attrs) -> Result<Self> {
        match attrs.get(name) {
            Some(Attr::List(steps)) => steps.iter().map(RegionStep::of_attr).collect(),
            _ => Err(bad("steps is missing, or no list of steps".into())),
        }
    }
}

impl StepFn {
    /// The step that an elementwise operator is, or `None` for any other operator.
    pub fn of(op: &Op) -> Option<StepFn> {
        Some(match op {
            Op::Map(m) => Self::Map(m.f),
            Op::Zip(z) => Self::Zip(z.f),
            Op::Compare(c) => Self::Compare(c.f),
            Op::Select(_) => Self::Select,
            Op::Clamp(c) => Self::Clamp(c.min, c.max),
            Op::Cast(c) => Self::Cast(c.to),
            _ => return None,
        })
    }

    /// The operator that the step is.
    pub fn op(self) -> Op {
        match self {
            Self::Map(f) => Map { f }.into(),
            Self::Zip(f) => Zip { f }.into(),
            Self::Compare(f) => Compare { f }.into(),
            Self::Select => Select.into(),
            Self::Clamp(min, max) => Clamp { min, max }.into(),
            Self::Cast(to) => Cast { to }.into(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Map(f) => f.name(),
            Self::Zip(f) => f.name(),
            Self::Compare(f) => f.name(),
            Self::Select => Select::NAME,
            Self::Clamp(..) => Clamp::NAME,
            Self::Cast(_) => Cast::NAME,
        }
    }
}

fn bad(what: String) -> Error {
    Error::bad_graph(format!("elementwise_region: {what}"))
}

impl RegionStep {
    /// `[clamp, s1, 0.0, 6.0]`
    fn attr(&self) -> Attr {
        let mut words = vec![Attr::Name(self.f.name().into())];
        words.extend(self.operands.iter().map(|x| {
            Attr::Name(match x {
                StepOperand::Input(i) => format!("i{i}"),
                StepOperand::Step(i) => format!("s{i}"),
            })
        }));
        match self.f {
            // The shortest decimal of the f32, as Attrs::float prints one.
            StepFn::Clamp(min, max) => {
                let bounds = Attrs::none().float("min", min).float("max", max);
                words.extend(bounds.0.into_iter().map(|a| a.1));
            }
            StepFn::Cast(to) => words.push(Attr::Name(to.name().into())),
            _ => {}
        }
        Attr::List(words)
    }

    fn of_attr(attr: &Attr) -> Result<RegionStep> {
        let wrong = || bad(format!("step {attr} is none; a step is [mul, i0, s1]"));
        let Attr::List(words) = attr else { return Err(wrong()) };
        let Some((Attr::Name(name), words)) = words.split_first() else { return Err(wrong()) };
        // What stands behind the operands goes first: `i32` may be a type and may be an input.
        let behind = match name.as_str() {
            Clamp::NAME => 2,
            Cast::NAME => 1,
            _ => 0,
        };
        let at = words.len().checked_sub(behind).ok_or_else(wrong)?;
        let (words, behind) = words.split_at(at);
        let f = match (name.as_str(), behind) {
            (Select::NAME, _) => StepFn::Select,
            (Clamp::NAME, [min, max]) => {
                let bounds = Attrs::none().with("min", min.clone()).with("max", max.clone());
                StepFn::Clamp(bounds.get_float("min")?, bounds.get_float("max")?)
            }
            (Cast::NAME, [Attr::Name(to)]) => StepFn::Cast(DType::from_name(to).ok_or_else(wrong)?),
            (name, _) => Unary::from_name(name)
                .map(StepFn::Map)
                .or_else(|| Binary::from_name(name).map(StepFn::Zip))
                .or_else(|| Comparison::from_name(name).map(StepFn::Compare))
                .ok_or_else(wrong)?,
        };
        let operand = |word: &Attr| {
            let Attr::Name(word) = word else { return None };
            let number = |prefix| word.strip_prefix(prefix).and_then(|n| n.parse().ok());
            number('i').map(StepOperand::Input).or_else(|| number('s').map(StepOperand::Step))
        };
        let operands: Option<Vec<StepOperand>> = words.iter().map(operand).collect();
        let operands = operands.ok_or_else(wrong)?;
        Ok(RegionStep { f, operands })
    }
}

impl Region {
    /// The type of every step, of inputs of these types.
    ///
    /// # Errors
    /// `BadGraph` for no steps, a step that reads what is not before it, an input or step that
    /// nothing reads, and from the steps' own type rules, with the step's number.
    pub fn types(&self, inputs: &[&Type]) -> Result<Vec<Type>> {
        let (mut read_inputs, mut read_steps) = (vec![false; inputs.len()], Vec::new());
        let mut types: Vec<Type> = Vec::with_capacity(self.steps.len());
        for (k, step) in self.steps.iter().enumerate() {
            let mut operands = Vec::with_capacity(step.operands.len());
            for x in &step.operands {
                let (ty, read) = match *x {
                    StepOperand::Input(i) => (inputs.get(i).copied(), read_inputs.get_mut(i)),
                    StepOperand::Step(i) => (types.get(i), read_steps.get_mut(i)),
                };
                let (Some(ty), Some(read)) = (ty, read) else {
                    return Err(bad(format!("step {k} reads {x:?}, which is not there")));
                };
                *read = true;
                operands.push(ty);
            }
            let ty = step.f.op().infer(&operands).map_err(|e| e.at(format!("step {k}")))?;
            types.push(ty.into_iter().next().ok_or_else(|| bad(format!("step {k} is empty")))?);
            read_steps.push(false);
        }
        // The last step is the result.
        if read_steps.pop().is_none() {
            return Err(bad("it has no steps".into()));
        }
        if let Some(i) = read_inputs.iter().position(|read| !read) {
            return Err(bad(format!("no step reads input {i}")));
        }
        if let Some(i) = read_steps.iter().position(|read| !read) {
            return Err(bad(format!("no later step reads step {i}")));
        }
        Ok(types)
    }
}

impl Operator for Region {
    const NAME: &'static str = "elementwise_region";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        Ok(self.types(operands)?.pop().into_iter().collect())
    }

    /// The chain again, bit for bit.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let mut results: Vec<ValueId> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let values: Option<Vec<ValueId>> = step
                .operands
                .iter()
                .map(|x| match *x {
                    StepOperand::Input(i) => operands.get(i).copied(),
                    StepOperand::Step(i) => results.get(i).copied(),
                })
                .collect();
            let values = values.ok_or_else(|| bad("a step reads what is not there".into()))?;
            results.push(e.one(step.f.op(), &values)?);
        }
        Ok(results.pop().map(|v| vec![v]))
    }

    /// In place over the first operand of the result's shape whose elements have the same size. One
    /// that is read by broadcast is smaller; one of the same shape is read element by element, since
    /// no step between them can be larger than the result.
    fn alias(&self, operands: &[&Type]) -> Alias {
        let Some(y) = self.infer(operands).ok().and_then(|mut types| types.pop()) else {
            return Alias::None;
        };
        let whole = |x: &&Type| {
            let scalar = !x.dtype.is_block() && !y.dtype.is_block();
            scalar && x.shape == y.shape && x.dtype.block_bytes() == y.dtype.block_bytes()
        };
        match operands.iter().position(whole) {
            Some(operand) => Alias::Elementwise { operand },
            None => Alias::None,
        }
    }

    /// Rows of an operand that is repeated serve every token.
    fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
        broadcast::same_rows(self, operand, operands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Shape;
    use alloc::string::ToString;

    fn read(text: &str) -> Result<Region> {
        let g = crate::ir::parse::parse(text)?;
        let Op::Region(r) = &g.nodes[0].op else { panic!("{text}") };
        Ok(r.clone())
    }

    fn graph(steps: &str, result: &str) -> String {
        format!(
            "func @f {{\n  input %a : tensor<2x3xf32>\n  input %b : tensor<3xf32>\n  \
             %0 = elementwise_region %a, %b {{steps = {steps}}} -> {result}\n  return y = %0\n}}\n"
        )
    }

    #[test]
    fn every_kind_of_step_prints_and_reads_back() {
        let text = graph(
            "[[mul, i0, i1], [silu, s0], [clamp, s1, -0.5, 6.0], [lt, s2, i0], \
             [select, s3, s2, i1], [cast, s4, f16]]",
            "tensor<2x3xf16>",
        );
        let g = crate::ir::parse::parse(&text).unwrap();
        assert_eq!(g.to_string(), text);
    }

    #[test]
    fn a_cast_to_i32_is_no_input_32() {
        let text = graph("[[add, i0, i1], [cast, s0, i32]]", "tensor<2x3xi32>");
        assert_eq!(crate::ir::parse::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn a_step_reads_only_what_is_before_it_and_everything_is_read() {
        for (steps, error) in [
            ("[]", "it has no steps"),
            ("[[add, i0, s0]]", "step 0 reads Step(0), which is not there"),
            ("[[add, i0, i2]]", "step 0 reads Input(2), which is not there"),
            ("[[neg, i0]]", "no step reads input 1"),
            ("[[add, i0, i1], [neg, i0]]", "no later step reads step 0"),
            ("[[matmul, i0, i1]]", "step [matmul, i0, i1] is none"),
            ("[[add, i0, i1, f16]]", "step [add, i0, i1, f16] is none"),
            ("[[add, i0]]", "zip takes 2 operands, got 1"),
        ] {
            let error = error.to_string();
            let found = read(&graph(steps, "tensor<2x3xf32>")).unwrap_err().to_string();
            assert!(found.contains(&error), "{steps}: {found}");
        }
    }

    #[test]
    fn only_an_operand_of_the_results_shape_is_overwritten() {
        let wide = Type::tensor(DType::F32, Shape::of(&[2, 3]));
        let row = Type::tensor(DType::F32, Shape::of(&[3]));
        let add = Region {
            steps: vec![RegionStep {
                f: StepFn::Zip(Binary::Add),
                operands: vec![StepOperand::Input(0), StepOperand::Input(1)],
            }],
        };
        assert_eq!(add.alias(&[&wide, &row]), Alias::Elementwise { operand: 0 });
        assert_eq!(add.alias(&[&row, &wide]), Alias::Elementwise { operand: 1 });
        // A comparison's bools do not fit over floats.
        let less = Region {
            steps: vec![RegionStep { f: StepFn::Compare(Comparison::Lt), ..add.steps[0].clone() }],
        };
        assert_eq!(less.alias(&[&wide, &row]), Alias::None);
        let column = Type::tensor(DType::F32, Shape::of(&[2, 1]));
        assert_eq!(add.alias(&[&column, &row]), Alias::None);
    }
}
