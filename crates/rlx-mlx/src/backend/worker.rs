//! MLX's thread: its arrays and programs by number.

use super::Options;
use super::forms::Forms;
use crate::lower::Lowered;
use crate::shim::find::Installed;
use crate::shim::{Argument, Array, Shim};
use crate::tape::Kind;
use rlx_core::ir::mir::Graph;
use rlx_core::sample::{control, params};
use rlx_core::target::Target;
use rlx_core::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How long the thread waits for a message while somebody waits for bytes.
const TICK: Duration = Duration::from_micros(100);

/// An array of a tensor that is uploaded.
pub(super) struct Part {
    pub kind: Kind,
    pub dims: Vec<i64>,
    pub bytes: Vec<u8>,
}

/// A graph, what it is lowered for, and the tape of any submission.
pub(super) struct Work {
    pub graph: Graph,
    pub target: Target,
    pub lowered: Lowered,
}

/// What the thread is told.
pub(super) enum Message {
    Upload(Vec<(u64, Part)>, Sender<Result<()>>),
    Free(Vec<u64>),
    Compile(u64, Box<Work>, Sender<Result<()>>),
    FreeProgram(u64),
    /// Arrays by number, and whether each is given away.
    Run {
        program: u64,
        arguments: Vec<(u64, bool)>,
        results: Vec<u64>,
    },
    Read(u64, Sender<Result<Vec<u8>>>),
}

/// What the thread has.
struct State {
    shim: Rc<Shim>,
    /// Whether MLX's own compiler traces tapes.
    compiles: bool,
    /// Arrays, or why there is none.
    arrays: HashMap<u64, Result<Rc<Array>>>,
    /// Of control blocks that a step computes, the rows that are there at most.
    past: HashMap<u64, i64>,
    programs: HashMap<u64, Forms>,
    /// Reads that have begun, in order.
    reads: VecDeque<(Array, Sender<Result<Vec<u8>>>)>,
}

/// What a run is queued as: results, and of which one how many rows are there at most.
type Queued = (Vec<Array>, Option<(usize, i64)>);

/// What an open device is called: its own name and MLX's version.
type Opened = Result<(String, String)>;

/// Does what it is told until nobody can tell it more.
pub(super) fn run(
    mlx: &Installed,
    how: Options,
    inbox: &Receiver<Message>,
    ready: &Sender<Opened>,
) {
    let shim = match Shim::load(mlx, how.cpu) {
        Ok(shim) => shim,
        Err(e) => {
            // Nobody listens where the caller has gone.
            let _ = ready.send(Err(e));
            return;
        }
    };
    let _ = ready.send(Ok((shim.device.clone(), shim.version.clone())));
    let mut state = State {
        shim,
        compiles: how.compile,
        arrays: HashMap::new(),
        past: HashMap::new(),
        programs: HashMap::new(),
        reads: VecDeque::new(),
    };
    loop {
        let message = if state.reads.is_empty() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(TICK)
        };
        match message {
            Ok(message) => state.does(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        state.answers();
    }
}

impl State {
    fn does(&mut self, message: Message) {
        match message {
            Message::Upload(parts, answer) => {
                let made = self.upload(parts);
                let _ = answer.send(made);
            }
            Message::Free(numbers) => numbers.iter().for_each(|n| {
                self.arrays.remove(n);
                self.past.remove(n);
            }),
            Message::Compile(number, work, answer) => {
                let Work { graph, target, lowered } = *work;
                let forms = Forms::new(&self.shim, (graph, target), &lowered, self.compiles);
                let made = forms.map(|forms| {
                    self.programs.insert(number, forms);
                });
                let _ = answer.send(made);
            }
            Message::FreeProgram(number) => {
                self.programs.remove(&number);
            }
            Message::Run { program, arguments, results } => match self.queue(program, &arguments) {
                Ok((made, past)) => {
                    self.past.extend(past.and_then(|(i, past)| Some((*results.get(i)?, past))));
                    let made = made.into_iter().map(|array| Ok(Rc::new(array)));
                    self.arrays.extend(results.into_iter().zip(made));
                }
                Err(e) => {
                    self.arrays.extend(results.into_iter().map(|n| (n, Err(e.clone()))));
                }
            },
            Message::Read(number, answer) => match self.array(number).and_then(|a| a.rows()) {
                Ok(rows) => self.reads.push_back((rows, answer)),
                Err(e) => {
                    let _ = answer.send(Err(e));
                }
            },
        }
    }

    fn upload(&mut self, parts: Vec<(u64, Part)>) -> Result<()> {
        for (number, part) in parts {
            let array = self.shim.upload(part.kind as i64, &part.dims, &part.bytes)?;
            self.arrays.insert(number, Ok(Rc::new(array)));
        }
        Ok(())
    }

    fn array(&self, number: u64) -> Result<Rc<Array>> {
        let found = self.arrays.get(&number);
        found.cloned().unwrap_or_else(|| Err(Error::internal(format!("MLX has no array {number}"))))
    }

    /// Queues a program: its results, and which of them is a control block with how many rows at most.
    fn queue(&mut self, number: u64, arguments: &[(u64, bool)]) -> Result<Queued> {
        let mut all = Vec::with_capacity(arguments.len());
        for &(n, _) in arguments {
            all.push(self.array(n)?);
        }
        let missing = || Error::internal(format!("MLX has no program {number}"));
        let forms = self.programs.get_mut(&number).ok_or_else(missing)?;
        let word = |at: usize, word: usize| all.get(at).and_then(|array| known(array, word));
        let greedy =
            forms.sampling.is_some_and(|at| word(at, params::GREEDY).is_some_and(|w| w != 0));
        let past = forms.control.and_then(|control| {
            let counted = || self.past.get(&arguments.get(control.argument)?.0).copied();
            word(control.argument, control::PAST).map(i64::from).or_else(counted)
        });
        let program = forms.program(&self.shim, forms.form(greedy, past))?;
        let behind =
            forms.control.zip(past).map(|(control, past)| (control.result, control.behind(past)));
        for (n, _) in arguments.iter().filter(|(_, given)| *given) {
            self.arrays.remove(n);
            self.past.remove(n);
        }
        let given = arguments.iter().map(|a| a.1);
        let all = all.into_iter().zip(given).map(|(array, given)| match Rc::try_unwrap(array) {
            Ok(own) if given => Argument::Given(own),
            Ok(own) => Argument::Shared(Rc::new(own)),
            Err(shared) => Argument::Shared(shared),
        });
        let made = self.shim.run(&program, all.collect(), forms.results)?;
        Ok((made, behind))
    }

    /// Answers reads whose bytes are there.
    fn answers(&mut self) {
        let mut later = VecDeque::new();
        while let Some((rows, answer)) = self.reads.pop_front() {
            match rows.bytes(false) {
                Ok(None) => later.push_back((rows, answer)),
                Ok(Some(bytes)) => {
                    let _ = answer.send(Ok(bytes.to_vec()));
                }
                Err(e) => {
                    let _ = answer.send(Err(e));
                }
            }
        }
        self.reads = later;
    }
}

/// A word of an array, as far as the host knows it: what it has written lies in memory, and so does what a step that
/// has ended computed.
fn known(array: &Rc<Array>, word: usize) -> Option<u32> {
    let bytes = array.bytes(false).ok()??;
    let word = bytes.get(4 * word..4 * word + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}
