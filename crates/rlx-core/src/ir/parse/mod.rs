//! Text IR back to what it says: exactly what printing writes, and blank lines and lines that begin
//! with `#`.
//!
//! A graph that parses has been verified. An error says line and column, what was found and what
//! was expected. No text makes a parser panic, recurse without a bound, or allocate more than the
//! text is long.

mod hir;
mod lexer;
mod lir;
mod mir;
mod types;

use super::hir::Module;
use super::lir::Program;
use super::mir::Graph;
use super::verify::verify;
use crate::error::{Error, Result};
use crate::ir::GraphModule;
use crate::ops::CustomSet;
use alloc::format;
use lexer::Lexer;

/// Bytes of text at most: a decode program of 100 layers has 0.3 MB.
const TEXT_BYTES: usize = 16 << 20;

/// Reads one function.
///
/// # Errors
/// `BadGraph` with line and column: for text that `print` would not write, for operators, types
/// and attributes that are unknown, and for a graph that does not [`verify`].
pub fn parse(text: &str) -> Result<Graph> {
    parse_with(text, &CustomSet::new())
}

/// [`parse`] of text that names a user's operators.
///
/// # Errors
/// As `parse`.
pub fn parse_with(text: &str, custom: &CustomSet) -> Result<Graph> {
    let mut lexer = open(text)?;
    let g = mir::function(&mut lexer, custom, 0)?;
    close(lexer)?;
    verify(&g)?;
    Ok(g)
}

/// Reads one module of blocks. Types of results are the lowering's to find.
///
/// # Errors
/// `BadGraph` with line and column.
pub fn parse_hir(text: &str) -> Result<Module> {
    parse_hir_with(text, &CustomSet::new())
}

/// [`parse_hir`] of text that names a user's operators.
///
/// # Errors
/// As `parse_hir`.
pub fn parse_hir_with(text: &str, custom: &CustomSet) -> Result<Module> {
    let mut lexer = open(text)?;
    let m = hir::module(&mut lexer, custom)?;
    close(lexer)?;
    Ok(m)
}

/// Reads one program. Text without the program's graph (`{}` prints none, `{:#}` does) gives a
/// program whose graph is empty: it runs, but nothing can be planned again from it.
///
/// # Errors
/// `BadGraph` with line and column; for a step whose places do not fit the operator's type rule or
/// lie outside what the program declares; as [`parse`] for the graph.
pub fn parse_lir(text: &str) -> Result<Program> {
    parse_lir_with(text, &CustomSet::new())
}

/// [`parse_lir`] of text that names a user's operators.
///
/// # Errors
/// As `parse_lir`.
pub fn parse_lir_with(text: &str, custom: &CustomSet) -> Result<Program> {
    let mut lexer = open(text)?;
    let program = lir::program(&mut lexer, custom)?;
    close(lexer)?;
    Ok(program)
}

impl GraphModule {
    /// Reads text of any stage: `module`, `func` or `program` begins it.
    ///
    /// # Errors
    /// `BadGraph` with line and column.
    pub fn parse(text: &str) -> Result<GraphModule> {
        let mut lexer = open(text)?;
        lexer.empty_lines();
        let at = lexer;
        match lexer.name("module, func or program")? {
            "module" => parse_hir(text).map(GraphModule::from),
            "func" => parse(text).map(GraphModule::from),
            "program" => parse_lir(text).map(GraphModule::from),
            _ => at.unexpected("module, func or program"),
        }
    }
}

fn open(text: &str) -> Result<Lexer<'_>> {
    if text.len() > TEXT_BYTES {
        return Err(Error::bad_graph(format!(
            "the text has {} bytes, {TEXT_BYTES} is the most",
            text.len()
        )));
    }
    Ok(Lexer { text, at: 0 })
}

fn close(mut lexer: Lexer<'_>) -> Result<()> {
    lexer.empty_lines();
    if lexer.rest().is_empty() { Ok(()) } else { lexer.unexpected("the end of the text") }
}
