//! A plugin's client, and topologies, for which programs are compiled where no device is.

use super::api::{
    Args, ClientArgs, ClientCompileArgs, ClientCreateArgs, ClientNameArgs, CompileArgs, DescriptionArgs,
    DevicesArgs, Handle, KindArgs, ProgramArgs, TopologyArgs, TopologyCreateArgs,
};
use super::executable::{Compiled, Executable};
use super::{Plugin, string};
use rlx_core::{Code, Error, Result};
use std::path::Path;
use std::sync::Arc;

/// The devices of a plugin; the first of them is used.
pub struct Client(Arc<Inner>);

pub(super) struct Inner {
    pub plugin: Arc<Plugin>,
    pub handle: Handle,
    pub device: Handle,
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

/// A serialised `CompileOptionsProto`.
///
/// Field 3, `executable_build_options`, has `num_replicas` (4) and `num_partitions` (5), both 1. Field 7,
/// `env_option_overrides`, is a map of names of XLA's options to values, of which field 2 is a boolean: XLA may
/// otherwise drop a rounding to a narrow type between two steps that are wider.
fn options() -> Vec<u8> {
    let mut bytes = vec![0x1a, 4, 0x20, 1, 0x28, 1];
    let name = b"xla_allow_excess_precision";
    bytes.extend([0x3a, name.len() as u8 + 6, 0x0a, name.len() as u8]);
    bytes.extend(name);
    bytes.extend([0x12, 2, 0x10, 0]);
    bytes
}

impl Client {
    /// Opens the devices of the plugin in this file.
    ///
    /// # Errors
    /// `DeviceUnavailable` if there is none.
    pub fn open(plugin: &Path) -> Result<Client> {
        let plugin = Plugin::load(plugin)?;
        let api = plugin.api();
        let mut args = ClientCreateArgs::new();
        let gone = |e: Error| Error::new(Code::DeviceUnavailable, e.what);
        plugin.call(api.client_create, "Client_Create", &mut args).map_err(gone)?;
        let mut inner = Inner { plugin: plugin.clone(), handle: args.client, device: std::ptr::null_mut() };
        let mut args = DevicesArgs { client: inner.handle, ..DevicesArgs::new() };
        plugin.call(api.client_addressable_devices, "Client_AddressableDevices", &mut args)?;
        if args.count == 0 || args.devices.is_null() {
            return Err(Error::new(Code::DeviceUnavailable, "the plugin has no device"));
        }
        // SAFETY: the array has `count` devices, which live as long as the client.
        inner.device = unsafe { *args.devices };
        Ok(Client(Arc::new(inner)))
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

    /// What the device calls its kind: `TPU v5 lite`.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub fn device_kind(&self) -> Result<String> {
        let plugin = &self.0.plugin;
        let mut args = DescriptionArgs { device: self.0.device, ..DescriptionArgs::new() };
        plugin.call(plugin.api().device_get_description, "Device_GetDescription", &mut args)?;
        let mut args = KindArgs { description: args.description, ..KindArgs::new() };
        plugin.call(plugin.api().device_description_kind, "DeviceDescription_Kind", &mut args)?;
        // SAFETY: as above.
        Ok(unsafe { string(args.kind, args.bytes) })
    }

    /// Compiles a StableHLO text.
    ///
    /// # Errors
    /// What the compiler says of it.
    pub fn compile(&self, text: &str) -> Result<Executable> {
        let (program, options) = (program(text), options());
        let mut args = ClientCompileArgs {
            client: self.0.handle,
            program: &program,
            options: options.as_ptr().cast(),
            options_bytes: options.len(),
            ..ClientCompileArgs::new()
        };
        let plugin = &self.0.plugin;
        plugin.call(plugin.api().client_compile, "Client_Compile", &mut args)?;
        Executable::new(self.0.clone(), args.executable)
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

    /// Compiles a StableHLO text for it.
    ///
    /// # Errors
    /// What the compiler says of it.
    pub fn compile(&self, text: &str) -> Result<Compiled> {
        let (program, options) = (program(text), options());
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
