//! The executor: programs are lowered, compiled by the plugin and run by it. [`GraphDevice`] keeps tensors, states and
//! tickets.

use crate::group::{Brought, Devices};
use crate::lower::{self, El, Module, storage};
use crate::pjrt::{Buffer, Client, Executable, Read};
use crate::target::{cpu_target, cuda_target, target};
use rlx_core::ir::mir::Graph;
use rlx_core::runtime::device::DeviceInfo;
use rlx_core::runtime::device::graph::{Argument, Backend, GraphDevice};
use rlx_core::target::{Ranks, Target};
use rlx_core::types::{DType, Type};
use rlx_core::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where libtpu is found by its name alone.
const LIBTPU: &str = "libtpu.so";

/// A device of a PJRT plugin.
pub struct Pjrt {
    client: Client,
    /// Its number among the plugin's.
    device: usize,
    info: DeviceInfo,
    /// What its programs were legalised for.
    target: Target,
    /// Its number in a group, and all devices of that.
    rank: Option<(usize, Arc<Devices>)>,
}

/// A tensor on the device, and how it is read.
pub struct Tensor {
    buffer: Buffer,
    rank: usize,
    bytes: usize,
}

/// A compiled graph.
pub struct Compiled {
    executable: Arc<Executable>,
    /// Rank and bytes of each result.
    results: Vec<(usize, usize)>,
    /// Parameters whose memory results take.
    states: Vec<usize>,
}

/// Opens the first device of a plugin: the one in this file; else the one that `PJRT_PLUGIN` names; else libtpu, where
/// the system finds it.
///
/// ```no_run
/// use rlx_core::runtime::device::Device;
///
/// let device = rlx_pjrt::open(Some("target/plugins/xla_cpu_pjrt.so".as_ref()))?;
/// assert_eq!(device.target().name, "xla-cpu");
/// # Ok::<(), rlx_core::Error>(())
/// ```
///
/// # Errors
/// `DeviceUnavailable` if there is no such plugin, or it has no device.
pub fn open(plugin: Option<&Path>) -> Result<GraphDevice<Pjrt>> {
    open_at(plugin, 0)
}

/// Opens the device of that number. Numbers begin at 0.
///
/// # Errors
/// As [`open`].
pub fn open_at(plugin: Option<&Path>, device: usize) -> Result<GraphDevice<Pjrt>> {
    let client = Client::with_devices(&found(plugin), device.saturating_add(1))?;
    let target = target_of(&client)?;
    Ok(GraphDevice::new(Pjrt::new(client, device, target.clone())?, target))
}

/// The file of a plugin.
fn found(plugin: Option<&Path>) -> PathBuf {
    let named = || std::env::var_os("PJRT_PLUGIN").map(PathBuf::from);
    plugin.map(Path::to_path_buf).or_else(named).unwrap_or_else(|| LIBTPU.into())
}

/// What programs are planned for.
fn target_of(client: &Client) -> Result<Target> {
    Ok(match client.platform()?.as_str() {
        "tpu" => target(),
        "cpu" => cpu_target(),
        "cuda" => cuda_target(),
        other => Target { name: format!("xla-{other}"), ..target() },
    })
}

impl Pjrt {
    fn new(client: Client, device: usize, target: Target) -> Result<Pjrt> {
        let info = DeviceInfo {
            kind: target.name.clone(),
            adapter: client.device_kind(device)?,
            features: vec![format!("PJRT {}", client.api_version()), client.version()?],
            ..DeviceInfo::default()
        };
        Ok(Pjrt { client, device, info, target, rank: None })
    }

    /// The devices of a group, with what each is planned for.
    pub(crate) fn ranks(
        plugin: Option<&Path>,
        devices: &Arc<Devices>,
        ranks: Ranks,
    ) -> Result<Vec<(Pjrt, Target)>> {
        let most = devices.numbers.iter().copied().max().unwrap_or(0);
        let client = Client::with_devices(&found(plugin), most.saturating_add(1))?;
        let target = target_of(&client)?.with_ranks(ranks);
        let one = |(rank, &device): (usize, &usize)| {
            let own = Pjrt::new(client.clone(), device, target.clone())?;
            Ok((Pjrt { rank: Some((rank, devices.clone())), ..own }, target.clone()))
        };
        devices.numbers.iter().enumerate().map(one).collect()
    }

    /// The plugin's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Keeps an error for those that would wait for this rank of a group.
    fn told<T>(&self, done: Result<T>) -> Result<T> {
        match &self.rank {
            Some((_, devices)) => devices.meeting.told(done),
            None => done,
        }
    }
}

/// Rank and bytes of a value as it is kept.
fn kept_as(ty: &Type) -> Result<(usize, usize)> {
    let bytes = ty.bytes()?;
    let bytes =
        usize::try_from(bytes).map_err(|_| Error::internal(format!("{bytes} bytes of {ty}")))?;
    Ok((storage(ty)?.1.len(), bytes))
}

impl Backend for Pjrt {
    type Tensor = Tensor;
    type Executable = Compiled;
    type Read = Read;

    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn upload(&self, ty: &Type, bytes: &[u8]) -> Result<Tensor> {
        let (el, dims) = storage(ty)?;
        let (rank, size) = kept_as(ty)?;
        // A boolean has one bit there, which other bytes than 0 and 1 have not.
        let plain: Vec<u8>;
        let bytes = if el == El::Bool && ty.dtype == DType::BOOL && bytes.iter().any(|&b| b > 1) {
            plain = bytes.iter().map(|&b| u8::from(b != 0)).collect();
            &plain
        } else {
            bytes
        };
        let buffer = self.told(self.client.upload_to(self.device, el.element(), &dims, bytes))?;
        Ok(Tensor { buffer, rank, bytes: size })
    }

    fn compile(&self, graph: &Graph) -> Result<Compiled> {
        let Module { text, states, .. } = lower::lower_for(graph, &self.target)?;
        let executable = match &self.rank {
            Some((_, devices)) => {
                let compile = |text: &str| self.client.compile_for(text, &devices.numbers);
                devices.compiled(text, compile)
            }
            None => self.client.compile_for(&text, &[self.device]).map(Arc::new),
        };
        let executable = executable.map_err(|e| e.at(graph.name.clone()))?;
        let finals = graph.final_states().into_iter().map(|f| f.1);
        let results = graph.outputs.iter().map(|o| o.value).chain(finals);
        let results = results.map(|v| kept_as(graph.ty(v))).collect::<Result<Vec<_>>>()?;
        if executable.outputs() != results.len() {
            let what =
                format!("the plugin has {} results of {}", executable.outputs(), results.len());
            return Err(Error::internal(what).at(graph.name.clone()));
        }
        Ok(Compiled { executable, results, states })
    }

    fn run(&self, compiled: &Compiled, arguments: Vec<Argument<Tensor>>) -> Result<Vec<Tensor>> {
        let buffers: Vec<Buffer> = arguments.iter().map(|a| a.tensor().buffer.clone()).collect();
        let is_shared = |i: &&usize| matches!(arguments.get(**i), Some(Argument::Shared(_)));
        let kept: Vec<i64> = compiled.states.iter().filter(is_shared).map(|&i| i as i64).collect();
        let made = match &self.rank {
            Some((rank, devices)) => {
                let executable = compiled.executable.clone();
                devices.run(*rank, Brought { executable, arguments: buffers, kept })?
            }
            None => compiled.executable.run(&buffers, &kept)?,
        };
        let each = made.into_iter().zip(&compiled.results);
        Ok(each.map(|(buffer, &(rank, bytes))| Tensor { buffer, rank, bytes }).collect())
    }

    fn read(&self, tensor: &Tensor) -> Result<Read> {
        tensor.buffer.read(tensor.rank, tensor.bytes)
    }

    fn poll(&self, read: &mut Read, wait: bool) -> Result<Option<Vec<u8>>> {
        if wait {
            read.wait()?;
        }
        read.poll()
    }
}
