//! Prints WGSL from templates: `{{name}}` is replaced, each buffer is bound once.

use super::Access;
use super::codebooks::Book;
use super::planes;
use crate::gpu::Form;
use rlx_core::ir::lir::{Slice, Space};
use rlx_core::plan::WeightPlan;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error, Result};

/// What a kernel binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindingResource {
    /// A buffer of the weight plan.
    Weights(u32),
    /// A state of the session.
    State(u32),
    /// A segment of the session's arena.
    Arena(u32),
    /// An input of the program.
    Input(u32),
    /// A codebook of the model's formats.
    Book(Book),
}

/// Elements of a bound array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Element {
    /// `array<u32>`.
    Word,
    /// `array<vec2u>`: one load of 8 bytes.
    Pair,
    /// `array<vec4u>`: one load of 16 bytes, where what is read starts at a multiple of them.
    Quad,
}

/// A slice as WGSL sees it: a flat array of words, pairs or quads, and where the slice starts in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Name of the array.
    pub var: String,
    /// Bytes from its start.
    pub byte: u32,
}

impl Place {
    /// Index of the first word.
    pub fn word(&self) -> u32 {
        self.byte / 4
    }
}

/// Collects a kernel's bindings while its text is made.
#[derive(Clone)]
pub(super) struct Emit<'a> {
    plan: &'a WeightPlan,
    /// Bound memory, from binding 1 on.
    pub memory: Vec<(BindingResource, Access)>,
    /// What each of it is an array of.
    elements: Vec<Element>,
    /// What the kernel computes, where hosts may have a text of their own for it.
    pub form: Option<Form>,
}

impl<'a> Emit<'a> {
    pub fn new(plan: &'a WeightPlan) -> Self {
        Emit { plan, memory: Vec::new(), elements: Vec::new(), form: None }
    }

    /// Memory that is only read may be bound twice, as words and as quads; a segment of the arena is bound once.
    fn bind(&mut self, memory: BindingResource, access: Access, element: Element) -> String {
        let bound = self.memory.iter().zip(&self.elements);
        let at = match bound.clone().position(|(m, e)| m.0 == memory && *e == element) {
            Some(at) => at,
            None => {
                self.memory.push((memory, Access::Read));
                self.elements.push(element);
                self.memory.len() - 1
            }
        };
        // The arena has one access everywhere: fewer pipelines, and any step may write it.
        if access == Access::ReadWrite || matches!(memory, BindingResource::Arena(_)) {
            self.memory[at].1 = Access::ReadWrite;
        }
        format!("b{}", at + 1)
    }

    /// The memory that a slice is in, and the byte of it where it starts.
    fn start(&self, slice: &Slice) -> Result<(BindingResource, u64)> {
        let (memory, start) = match slice.space {
            Space::Arena => (BindingResource::Arena(slice.index), 0),
            Space::State => (BindingResource::State(slice.index), 0),
            Space::Input => (BindingResource::Input(slice.index), 0),
            Space::Weight => {
                let entry = self.plan.entries.get(slice.index as usize).ok_or_else(|| {
                    Error::internal(format!("weight {} is not in the plan", slice.index))
                })?;
                let elements = |ty| planes::rows(ty).map(|rows| rows.0);
                if elements(&entry.ty) != elements(&slice.ty) {
                    return Err(Error::internal(format!("{} is read as {}", entry.ty, slice.ty)));
                }
                (BindingResource::Weights(entry.buffer), entry.offset)
            }
        };
        Ok((memory, start + slice.offset))
    }

    /// Whether a slice can be read by 16 bytes.
    pub fn in_quads(&self, slice: &Slice) -> bool {
        self.start(slice).is_ok_and(|(_, byte)| byte.is_multiple_of(16))
    }

    /// Whether a weight starts at a multiple of 16 bytes, or has blocks that do not all start there anyway.
    pub fn starts_as_blocks(&self, slice: &Slice) -> bool {
        let whole = |b: BlockFormat| b.bytes().is_multiple_of(16);
        !matches!(slice.ty.dtype, DType::Block(b) if whole(b)) || self.in_quads(slice)
    }

    fn place(&mut self, slice: &Slice, access: Access, element: Element) -> Result<Place> {
        let (memory, start) = self.start(slice)?;
        let byte = u32::try_from(start).map_err(|_| {
            Error::new(Code::Unsupported, "a buffer of more than 4 GiB").hint("use smaller buffers")
        })?;
        Ok(Place { var: self.bind(memory, access, element), byte })
    }

    /// A slice that the kernel reads.
    pub fn read(&mut self, slice: &Slice) -> Result<Place> {
        self.place(slice, Access::Read, Element::Word)
    }

    /// A slice that starts anywhere, in an array of 16 bytes.
    pub fn read_in_quads(&mut self, slice: &Slice) -> Result<Place> {
        self.place(slice, Access::Read, Element::Quad)
    }

    /// A slice that the kernel reads by 16 bytes.
    ///
    /// # Errors
    /// `Internal` where it does not start at a multiple of them.
    pub fn read_quads(&mut self, slice: &Slice) -> Result<Place> {
        aligned(self.place(slice, Access::Read, Element::Quad)?, 16)
    }

    /// A slice that the kernel reads by 8 bytes.
    ///
    /// # Errors
    /// `Internal` where it does not start at a multiple of them.
    pub fn read_pairs(&mut self, slice: &Slice) -> Result<Place> {
        aligned(self.place(slice, Access::Read, Element::Pair)?, 8)
    }

    /// A slice that the kernel writes by 16 bytes.
    ///
    /// # Errors
    /// `Internal` for a weight or an input, or where it does not start at a multiple of them.
    pub fn write_quads(&mut self, slice: &Slice) -> Result<Place> {
        self.writable(slice)?;
        aligned(self.place(slice, Access::ReadWrite, Element::Quad)?, 16)
    }

    /// A slice that the kernel writes.
    ///
    /// # Errors
    /// `Internal` for a weight or an input.
    pub fn write(&mut self, slice: &Slice) -> Result<Place> {
        self.writable(slice)?;
        self.place(slice, Access::ReadWrite, Element::Word)
    }

    fn writable(&self, slice: &Slice) -> Result<()> {
        if matches!(slice.space, Space::Weight | Space::Input) {
            return Err(Error::internal("a step writes a weight or an input"));
        }
        Ok(())
    }

    /// The name of a state that the kernel reads.
    pub fn state(&mut self, index: u32) -> String {
        self.bind(BindingResource::State(index), Access::Read, Element::Word)
    }

    /// The name of a codebook.
    pub fn book(&mut self, book: Book) -> String {
        self.bind(BindingResource::Book(book), Access::Read, Element::Word)
    }

    /// Declarations of everything bound, step constants first; the template declares `Step`.
    pub fn bindings(&self) -> String {
        let mut out = String::from("@group(0) @binding(0) var<uniform> step: Step;\n");
        for (i, ((_, access), element)) in self.memory.iter().zip(&self.elements).enumerate() {
            let n = i + 1;
            let element = match element {
                Element::Word => "u32",
                Element::Pair => "vec2u",
                Element::Quad => "vec4u",
            };
            let access = match access {
                Access::Read => "read",
                Access::ReadWrite => "read_write",
            };
            out += &format!(
                "@group(0) @binding({n}) var<storage, {access}> b{n}: array<{element}>;\n"
            );
        }
        out
    }
}

fn aligned(place: Place, bytes: u32) -> Result<Place> {
    if place.byte.is_multiple_of(bytes) {
        return Ok(place);
    }
    Err(Error::internal(format!("a slice at byte {} is read by {bytes}", place.byte)))
}

/// Replaces every `{{name}}` of a template.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out += before;
        let (name, tail) = after.split_once("}}").unwrap_or((after, ""));
        match values.iter().find(|v| v.0 == name) {
            Some((_, value)) => out += value,
            // Left in place, it fails to parse: every kernel's text is validated in tests.
            None => out += &format!("{{{{{name}}}}}"),
        }
        rest = tail;
    }
    out + rest
}
