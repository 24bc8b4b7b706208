//! RLX on this machine: model files by memory map, the devices there are, and the `rlx` command
//! line.
//!
//! ```text
//! files ─ headers ─▶ core: compile ─▶ load ─ maps ─▶ a device ─▶ core: engine
//!                                                      ▲
//!                                  devices ── block_on ┘ drives core's polls on this thread
//! ```
//!
//! ```no_run
//! use rlx_core::{runtime::generate::engine::GenerateOptions, text::Message};
//! use rlx_native::generate::{chat_tokens, generate};
//! use rlx_native::load::{LoadOptions, load};
//! use rlx_native::{devices, network::CheckpointFiles};
//!
//! fn main() -> rlx_core::Result<()> {
//!     let row = devices::find("cpu")?;
//!     let device = (row.open)(&devices::OpenOptions::default())?;
//!     let source = CheckpointFiles::open("model.gguf".as_ref())?;
//!     let mut model = load(&source, row, device, &LoadOptions::default(), &mut |_, _| {})?;
//!     let prompt = chat_tokens(&model, &[Message::new("user", "What does Vec::push do?")])?;
//!     let mut show = |text: &str| -> rlx_core::Result<()> { print!("{text}"); Ok(()) };
//!     generate(&mut model, prompt, &GenerateOptions::default(), &|| false, &mut show)?;
//!     Ok(())
//! }
//! ```
//!
//! Everything that answers a question lives in `rlx-core` and the executors; this crate opens
//! files, reads the clock, parks the thread and prints.

pub mod auto;
pub mod block_on;
pub mod choice;
pub mod cli;
pub mod devices;
pub mod embed;
pub mod features;
pub mod files;
pub mod form;
pub mod generate;
pub mod image;
pub mod imagine;
pub mod load;
pub mod lost;
pub mod memory;
pub mod network;
pub mod new_file;
pub mod npy;
pub mod overflow;
pub mod platform;
pub mod remembered;
pub mod report;
pub mod segment;
pub mod sound;
pub mod tokens;
pub mod tools;
pub mod track;
pub mod transcribe;
