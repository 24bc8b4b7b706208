//! A model at any one stage.

use super::{hir, lir, mir};
use crate::error::{Code, Error, Result};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

/// A stage's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Blocks.
    Hir,
    /// Operators.
    Mir,
    /// Steps.
    Lir,
}

impl Stage {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hir => "hir",
            Self::Mir => "mir",
            Self::Lir => "lir",
        }
    }
}

/// A model at any one stage; asked for another it says `WrongStage`.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphModule {
    /// Blocks.
    Hir(Box<hir::Module>),
    /// Operators.
    Mir(Box<mir::Graph>),
    /// Steps.
    Lir(Box<lir::Program>),
}

impl GraphModule {
    /// Blocks that a closure writes; what it returns is the one output, `output`.
    pub fn define(name: &str, f: impl FnOnce(&mut hir::Module) -> hir::Tensor) -> GraphModule {
        let mut m = hir::Module::graph(name);
        let x = f(&mut m);
        m.output("output", x);
        m.into()
    }

    /// Which stage it holds.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Hir(_) => Stage::Hir,
            Self::Mir(_) => Stage::Mir,
            Self::Lir(_) => Stage::Lir,
        }
    }

    /// The text of the stage it holds.
    pub fn inspect(&self) -> String {
        match self {
            Self::Hir(m) => m.to_string(),
            Self::Mir(g) => g.to_string(),
            Self::Lir(p) => p.to_string(),
        }
    }

    pub(crate) fn wrong(&self, need: Stage) -> Error {
        Error::new(
            Code::WrongStage,
            format!("the module is at stage {}, not {}", self.stage().name(), need.name()),
        )
        .hint("lower it, or keep the earlier stage")
    }

    /// The blocks. Errors with `WrongStage` at another stage, as all of these do.
    pub fn as_hir(&self) -> Result<&hir::Module> {
        match self {
            Self::Hir(m) => Ok(m),
            _ => Err(self.wrong(Stage::Hir)),
        }
    }

    /// The blocks, to write more.
    pub fn as_hir_mut(&mut self) -> Result<&mut hir::Module> {
        match self {
            Self::Hir(m) => Ok(m),
            _ => Err(self.wrong(Stage::Hir)),
        }
    }

    /// The graph.
    pub fn as_mir(&self) -> Result<&mir::Graph> {
        match self {
            Self::Mir(g) => Ok(g),
            _ => Err(self.wrong(Stage::Mir)),
        }
    }

    /// The program.
    pub fn as_lir(&self) -> Result<&lir::Program> {
        match self {
            Self::Lir(p) => Ok(p),
            _ => Err(self.wrong(Stage::Lir)),
        }
    }

    /// The blocks, owned.
    pub fn into_hir(self) -> Result<hir::Module> {
        match self {
            Self::Hir(m) => Ok(*m),
            _ => Err(self.wrong(Stage::Hir)),
        }
    }

    /// The graph, owned.
    pub fn into_mir(self) -> Result<mir::Graph> {
        match self {
            Self::Mir(g) => Ok(*g),
            _ => Err(self.wrong(Stage::Mir)),
        }
    }

    /// The program, owned.
    pub fn into_lir(self) -> Result<lir::Program> {
        match self {
            Self::Lir(p) => Ok(*p),
            _ => Err(self.wrong(Stage::Lir)),
        }
    }
}

impl From<hir::Module> for GraphModule {
    fn from(m: hir::Module) -> Self {
        Self::Hir(Box::new(m))
    }
}

impl From<mir::Graph> for GraphModule {
    fn from(g: mir::Graph) -> Self {
        Self::Mir(Box::new(g))
    }
}

impl From<lir::Program> for GraphModule {
    fn from(p: lir::Program) -> Self {
        Self::Lir(Box::new(p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DType, Shape, Type};

    #[test]
    fn another_stage_is_an_error_that_names_both() {
        let mut m = GraphModule::from(mir::Graph::new("decode"));
        assert!(m.as_mir().is_ok());
        let e = m.as_lir().unwrap_err();
        assert_eq!(e.code, Code::WrongStage);
        assert_eq!(e.what, "the module is at stage mir, not lir");
        assert_eq!(m.as_hir_mut().unwrap_err().code, Code::WrongStage);
        assert_eq!(m.clone().into_hir().unwrap_err().code, Code::WrongStage);
        assert_eq!(m.into_mir().unwrap().name, "decode");
    }

    #[test]
    fn a_defined_module_is_hir_with_one_output() {
        let m = GraphModule::define("f", |m| {
            m.input("x", Type::tensor(DType::F32, Shape::of(&[2, 4])))
        });
        assert_eq!(m.stage(), Stage::Hir);
        assert_eq!(m.as_hir().unwrap().outputs.len(), 1);
        assert_eq!(
            m.inspect(),
            "module @f {policy = direct} {\n  input %x : tensor<2x4xf32>\n  return output = %x\n}\n"
        );
    }
}
