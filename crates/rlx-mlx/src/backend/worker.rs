//! MLX's thread: its arrays and programs by number.

use super::Options;
use crate::shim::find::Installed;
use crate::shim::{Argument, Array, Program, Shim};
use crate::tape::Kind;
use rlx_core::sample::params;
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

/// A graph's tapes.
pub(super) struct Work {
    pub words: Vec<i64>,
    /// The argument with the sampling parameters, and the tape where these take the best token.
    pub greedy: Option<(usize, Vec<i64>)>,
    pub results: usize,
}

/// What the thread is told.
pub(super) enum Message {
    Upload(Vec<(u64, Part)>, Sender<Result<()>>),
    Free(Vec<u64>),
    Compile(u64, Work, Sender<Result<()>>),
    FreeProgram(u64),
    /// Arrays by number, and whether each is given away.
    Run {
        program: u64,
        arguments: Vec<(u64, bool)>,
        results: Vec<u64>,
    },
    Read(u64, Sender<Result<Vec<u8>>>),
}

struct Compiled {
    program: Program,
    greedy: Option<(usize, Program)>,
    results: usize,
}

/// What the thread has.
struct State {
    shim: Rc<Shim>,
    /// Whether MLX's own compiler traces tapes.
    compiles: bool,
    /// Arrays, or why there is none.
    arrays: HashMap<u64, Result<Rc<Array>>>,
    programs: HashMap<u64, Compiled>,
    /// Reads that have begun, in order.
    reads: VecDeque<(Array, Sender<Result<Vec<u8>>>)>,
}

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
    let (arrays, programs, reads) = (HashMap::new(), HashMap::new(), VecDeque::new());
    let mut state = State { shim, compiles: how.compile, arrays, programs, reads };
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
            }),
            Message::Compile(number, work, answer) => {
                let made = self.compiled(&work).map(|compiled| {
                    self.programs.insert(number, compiled);
                });
                let _ = answer.send(made);
            }
            Message::FreeProgram(number) => {
                self.programs.remove(&number);
            }
            Message::Run { program, arguments, results } => match self.queue(program, &arguments) {
                Ok(made) => {
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

    fn compiled(&self, work: &Work) -> Result<Compiled> {
        let program = self.shim.program(&work.words, self.compiles)?;
        let greedy = match &work.greedy {
            Some((at, words)) => Some((*at, self.shim.program(words, self.compiles)?)),
            None => None,
        };
        Ok(Compiled { program, greedy, results: work.results })
    }

    fn array(&self, number: u64) -> Result<Rc<Array>> {
        let found = self.arrays.get(&number);
        found.cloned().unwrap_or_else(|| Err(Error::internal(format!("MLX has no array {number}"))))
    }

    /// Queues a program.
    fn queue(&mut self, number: u64, arguments: &[(u64, bool)]) -> Result<Vec<Array>> {
        let mut all = Vec::with_capacity(arguments.len());
        for &(n, given) in arguments {
            let array = self.array(n)?;
            if given {
                self.arrays.remove(&n);
            }
            all.push(array);
        }
        let missing = || Error::internal(format!("MLX has no program {number}"));
        let compiled = self.programs.get(&number).ok_or_else(missing)?;
        let greedy =
            compiled.greedy.as_ref().filter(|(at, _)| all.get(*at).is_some_and(takes_best));
        let program = greedy.map_or(&compiled.program, |(_, program)| program);
        let given = arguments.iter().map(|a| a.1);
        let all = all.into_iter().zip(given).map(|(array, given)| match Rc::try_unwrap(array) {
            Ok(own) if given => Argument::Given(own),
            Ok(own) => Argument::Shared(Rc::new(own)),
            Err(shared) => Argument::Shared(shared),
        });
        self.shim.run(program, all.collect(), compiled.results)
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

/// Whether sampling parameters say that the best token is taken, as far as the host knows: parameters that it has
/// written lie in memory, and no step changes them.
fn takes_best(params: &Rc<Array>) -> bool {
    let Ok(Some(bytes)) = params.bytes(false) else { return false };
    let word = bytes.get(4 * params::GREEDY..4 * params::GREEDY + 4);
    word.is_some_and(|word| word != [0; 4])
}
