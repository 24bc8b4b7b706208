//! A model at any one stage.

use super::{hir, lir, mir};
use crate::error::{Code, Error, Result};
use alloc::boxed::Box;
use alloc::format;

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
    /// Which stage it holds.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Hir(_) => Stage::Hir,
            Self::Mir(_) => Stage::Mir,
            Self::Lir(_) => Stage::Lir,
        }
    }

    fn wrong(&self, need: Stage) -> Error {
        Error::new(
            Code::WrongStage,
            format!("the module is at stage {}, not {}", self.stage().name(), need.name()),
        )
        .hint("lower it, or keep the earlier stage")
    }

    /// The blocks. Errors with `WrongStage` at another stage.
    pub fn hir(&self) -> Result<&hir::Module> {
        match self {
            Self::Hir(m) => Ok(m),
            _ => Err(self.wrong(Stage::Hir)),
        }
    }

    /// The graph. Errors with `WrongStage` at another stage.
    pub fn mir(&self) -> Result<&mir::Graph> {
        match self {
            Self::Mir(g) => Ok(g),
            _ => Err(self.wrong(Stage::Mir)),
        }
    }

    /// The program. Errors with `WrongStage` at another stage.
    pub fn lir(&self) -> Result<&lir::Program> {
        match self {
            Self::Lir(p) => Ok(p),
            _ => Err(self.wrong(Stage::Lir)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_stage_is_an_error_that_names_both() {
        let m = GraphModule::Mir(Box::new(mir::Graph::new("decode")));
        assert!(m.mir().is_ok());
        let e = m.lir().unwrap_err();
        assert_eq!(e.code, Code::WrongStage);
        assert_eq!(e.what, "the module is at stage mir, not lir");
    }
}
