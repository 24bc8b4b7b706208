//! A plugin's client, and topologies, for which programs are compiled where no device is.

use super::api::{
    Args, ClientArgs, ClientCompileArgs, ClientCreateArgs, ClientNameArgs, CompileArgs,
    DescriptionArgs, DevicesArgs, Handle, INTEGER, IdArgs, KindArgs, NamedValue, ProgramArgs,
    TopologyArgs, TopologyCreateArgs,
};
use super::executable::{Compiled, Executable};
use super::options::options;
use super::{Plugin, string};
use rlx_core::{Code, Error, Result};
use std::path::Path;
use std::sync::Arc;

/// The devices of a plugin, which have numbers from 0 on.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

pub(super) struct Inner {
    pub plugin: Arc<Plugin>,
    pub handle: Handle,
    devices: Vec<Handle>,
}

// SAFETY: clients and devices are thread-safe in PJRT.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        let args = ClientArgs { client: self.handle, ..ClientArgs::new() };
        self.plugin.destroy(self.plugin.api().client_destroy, "Client_Destroy", args);
    }
}

impl Inner {
    /// The device of that number.
    pub fn device(&self, number: usize) -> Result<Handle> {
        self.devices.get(number).copied().ok_or_else(|| {
            let have = self.devices.len();
            let what = format!("there is no device {number}: the plugin has {have}, from 0 on");
            Error::new(Code::DeviceUnavailable, what)
        })
    }

    /// What the device is, for the functions that say so.
    fn description(&self, device: usize) -> Result<Handle> {
        let mut args = DescriptionArgs { device: self.device(device)?, ..DescriptionArgs::new() };
        let get = self.plugin.api().device_get_description;
        self.plugin.call(get, "Device_GetDescription", &mut args)?;
        Ok(args.description)
    }
}

impl Client {
    /// Opens the devices of the plugin in this file.
    ///
    /// # Errors
    /// `DeviceUnavailable` if there is none.
    pub fn open(plugin: &Path) -> Result<Client> {
        Client::created(Plugin::load(plugin)?, &[])
    }

    /// Opens the plugin with so many devices, 1 or more, or with all that it has, if they are more. A CPU is as many
    /// devices as are asked for, which share its cores; other plugins have as many as the machine.
    ///
    /// # Errors
    /// `DeviceUnavailable` if there are fewer.
    pub fn with_devices(plugin: &Path, count: usize) -> Result<Client> {
        let mut client = Client::open(plugin)?;
        if client.devices() < count && client.platform()? == "cpu" {
            const NAME: &str = "cpu_device_count";
            let value = i64::try_from(count).unwrap_or(i64::MAX);
            let option = NamedValue {
                name: NAME.as_ptr().cast(),
                bytes: NAME.len(),
                kind: INTEGER,
                value,
                count: 1,
                ..NamedValue::new()
            };
            let plugin = client.0.plugin.clone();
            drop(client);
            client = Client::created(plugin, &[option])?;
        }
        client.0.device(count.saturating_sub(1))?;
        Ok(client)
    }

    fn created(plugin: Arc<Plugin>, options: &[NamedValue]) -> Result<Client> {
        let api = plugin.api();
        let mut args = ClientCreateArgs {
            options: options.as_ptr(),
            count: options.len(),
            ..ClientCreateArgs::new()
        };
        let gone = |e: Error| Error::new(Code::DeviceUnavailable, e.what);
        plugin.call(api.client_create, "Client_Create", &mut args).map_err(gone)?;
        let mut inner = Inner { plugin: plugin.clone(), handle: args.client, devices: Vec::new() };
        let mut args = DevicesArgs { client: inner.handle, ..DevicesArgs::new() };
        plugin.call(api.client_addressable_devices, "Client_AddressableDevices", &mut args)?;
        if args.count == 0 || args.devices.is_null() {
            return Err(Error::new(Code::DeviceUnavailable, "the plugin has no device"));
        }
        // SAFETY: the array has `count` devices, which live as long as the client.
        inner.devices = unsafe { std::slice::from_raw_parts(args.devices, args.count) }.to_vec();
        Ok(Client(Arc::new(inner)))
    }

    /// How many devices it has.
    pub fn devices(&self) -> usize {
        self.0.devices.len()
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// The platform's name: `cpu`, `tpu`.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub fn platform(&self) -> Result<String> {
        let mut args = ClientNameArgs { client: self.0.handle, ..ClientNameArgs::new() };
        let plugin = &self.0.plugin;
        plugin.call(plugin.api().client_platform_name, "Client_PlatformName", &mut args)?;
        // SAFETY: the plugin's string, which lives as long as the client.
        Ok(unsafe { string(args.name, args.bytes) })
    }

    /// The version of PJRT that the plugin has: `0.81`.
    pub fn api_version(&self) -> String {
        self.0.plugin.version()
    }

    /// The platform's version.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub fn version(&self) -> Result<String> {
        let mut args = ClientNameArgs { client: self.0.handle, ..ClientNameArgs::new() };
        let plugin = &self.0.plugin;
        plugin.call(plugin.api().client_platform_version, "Client_PlatformVersion", &mut args)?;
        // SAFETY: as above.
        Ok(unsafe { string(args.name, args.bytes) })
    }

    /// What a device calls its kind: `TPU v5 lite`.
    ///
    /// # Errors
    /// `DeviceUnavailable` for a number that no device has; errors of the plugin.
    pub fn device_kind(&self, device: usize) -> Result<String> {
        let plugin = &self.0.plugin;
        let mut args = KindArgs { description: self.0.description(device)?, ..KindArgs::new() };
        plugin.call(plugin.api().device_description_kind, "DeviceDescription_Kind", &mut args)?;
        // SAFETY: as above.
        Ok(unsafe { string(args.kind, args.bytes) })
    }

    /// The number by which the plugin knows a device in options of compilers.
    fn device_id(&self, device: usize) -> Result<u64> {
        let plugin = &self.0.plugin;
        let mut args = IdArgs { description: self.0.description(device)?, ..IdArgs::new() };
        plugin.call(plugin.api().device_description_id, "DeviceDescription_Id", &mut args)?;
        u64::try_from(args.id)
            .map_err(|_| Error::internal(format!("device {device} has the id {}", args.id)))
    }

    /// Compiles a StableHLO text for the first device.
    ///
    /// # Errors
    /// What the compiler says of it.
    pub fn compile(&self, text: &str) -> Result<Executable> {
        self.compile_for(text, &[0])
    }

    /// Compiles a StableHLO text that all of these devices run together, each on arguments of its own: they are the
    /// replicas 0, 1, … of the text.
    ///
    /// # Errors
    /// `DeviceUnavailable` for a number that no device has, or for no devices; what the compiler says of the text.
    pub fn compile_for(&self, text: &str, devices: &[usize]) -> Result<Executable> {
        if devices.is_empty() {
            return Err(Error::new(Code::DeviceUnavailable, "a program for no devices"));
        }
        let ids = devices.iter().map(|&d| self.device_id(d)).collect::<Result<Vec<u64>>>()?;
        let (program, options) = (program(text), options(ids.len() as u64, &ids));
        let mut args = ClientCompileArgs {
            client: self.0.handle,
            program: &program,
            options: options.as_ptr().cast(),
            options_bytes: options.len(),
            ..ClientCompileArgs::new()
        };
        let plugin = &self.0.plugin;
        plugin.call(plugin.api().client_compile, "Client_Compile", &mut args)?;
        Executable::new(self.0.clone(), args.executable, ids.len())
    }
}

/// The program as PJRT takes it; the text must outlive it.
fn program(text: &str) -> ProgramArgs {
    const FORMAT: &str = "mlir";
    ProgramArgs {
        code: text.as_ptr().cast(),
        bytes: text.len(),
        format: FORMAT.as_ptr().cast(),
        format_bytes: FORMAT.len(),
        ..ProgramArgs::new()
    }
}

/// Devices that a program is compiled for and that need not be there.
pub struct Topology {
    plugin: Arc<Plugin>,
    handle: Handle,
}

impl Topology {
    /// The topology of that name, as the plugin knows it: `v5e:2x2` of libtpu.
    ///
    /// # Errors
    /// Errors of the plugin: it does not load, or knows no such topology.
    pub fn new(plugin: &Path, name: &str) -> Result<Topology> {
        let plugin = Plugin::load(plugin)?;
        let mut args = TopologyCreateArgs {
            name: name.as_ptr().cast(),
            bytes: name.len(),
            ..TopologyCreateArgs::new()
        };
        let create = plugin.api().topology_description_create;
        plugin.call(create, "TopologyDescription_Create", &mut args)?;
        Ok(Topology { handle: args.topology, plugin })
    }

    /// Compiles a StableHLO text for so many of its cores, which run it together: 1 or more, each a replica.
    ///
    /// # Errors
    /// What the compiler says of it.
    pub fn compile(&self, text: &str, cores: u64) -> Result<Compiled> {
        let (program, options) = (program(text), options(cores, &[]));
        let mut args = CompileArgs {
            topology: self.handle,
            program: &program,
            options: options.as_ptr().cast(),
            options_bytes: options.len(),
            ..CompileArgs::new()
        };
        self.plugin.call(self.plugin.api().compile, "Compile", &mut args)?;
        Ok(Compiled::new(self.plugin.clone(), args.executable))
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let args = TopologyArgs { topology: self.handle, ..TopologyArgs::new() };
        let destroy = self.plugin.api().topology_description_destroy;
        self.plugin.destroy(destroy, "TopologyDescription_Destroy", args);
    }
}
