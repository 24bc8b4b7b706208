//! Compiled programs.

use super::Plugin;
use super::api::{
    Args, CodeSizeArgs, ExecutableArgs, ExecuteArgs, ExecuteOptions, GetExecutableArgs, Handle,
    LoadedArgs, MemoryStatsArgs, OutputsArgs,
};
use super::buffer::Buffer;
use super::client::Inner;
use rlx_core::{Error, Result};
use std::sync::Arc;

/// A program that runs on devices of the client.
pub struct Executable {
    client: Arc<Inner>,
    handle: Handle,
    devices: usize,
    outputs: usize,
    /// What the compiler says of it.
    pub compiled: Compiled,
}

// SAFETY: executables are thread-safe in PJRT.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        let plugin = &self.client.plugin;
        let args = LoadedArgs { executable: self.handle, ..LoadedArgs::new() };
        plugin.destroy(plugin.api().loaded_executable_destroy, "LoadedExecutable_Destroy", args);
    }
}

impl Executable {
    pub(super) fn new(client: Arc<Inner>, handle: Handle, devices: usize) -> Result<Executable> {
        let plugin = client.plugin.clone();
        let mut args = GetExecutableArgs { loaded: handle, ..GetExecutableArgs::new() };
        let get = plugin.api().loaded_executable_get_executable;
        let got = plugin.call(get, "LoadedExecutable_GetExecutable", &mut args);
        let compiled = Compiled::new(plugin, args.executable);
        // Whatever fails from here on frees the executable.
        let mut made = Executable { client, handle, devices, outputs: 0, compiled };
        got?;
        made.outputs = made.compiled.outputs()?;
        Ok(made)
    }

    /// How many results it has.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Queues a program of one device over these arguments. Those in `kept` are not donated, even if the program says
    /// that a result may take their memory; others that it says so of are gone afterwards.
    ///
    /// # Errors
    /// As [`run_each`](Self::run_each).
    pub fn run(&self, arguments: &[Buffer], kept: &[i64]) -> Result<Vec<Buffer>> {
        let mut results = self.run_each(&[arguments], kept)?;
        Ok(results.pop().unwrap_or_default())
    }

    /// Queues a program over arguments of each of its devices, in their order; the results of each. Those in `kept`
    /// are not donated on any device.
    ///
    /// # Errors
    /// `Internal` for arguments of more or fewer devices, or another number of arguments than another device has.
    /// Errors of the plugin: an argument of another type, too little memory.
    pub fn run_each(&self, arguments: &[&[Buffer]], kept: &[i64]) -> Result<Vec<Vec<Buffer>>> {
        let count = arguments.first().map_or(0, |own| own.len());
        if arguments.len() != self.devices || arguments.iter().any(|own| own.len() != count) {
            let each: Vec<usize> = arguments.iter().map(|own| own.len()).collect();
            let what = format!("{each:?} arguments for {} devices", self.devices);
            return Err(Error::internal(what));
        }
        let handles: Vec<Vec<Handle>> =
            arguments.iter().map(|own| own.iter().map(Buffer::handle).collect()).collect();
        let mut results: Vec<Vec<Handle>> =
            vec![vec![std::ptr::null_mut(); self.outputs]; self.devices];
        let lists: Vec<*const Handle> = handles.iter().map(|own| own.as_ptr()).collect();
        let results_lists: Vec<*mut Handle> =
            results.iter_mut().map(|own| own.as_mut_ptr()).collect();
        let mut options =
            ExecuteOptions { kept: kept.as_ptr(), kept_count: kept.len(), ..ExecuteOptions::new() };
        let mut args = ExecuteArgs {
            executable: self.handle,
            options: &mut options,
            arguments: lists.as_ptr(),
            devices: self.devices,
            count,
            outputs: results_lists.as_ptr(),
            ..ExecuteArgs::new()
        };
        let plugin = &self.client.plugin;
        plugin.call(
            plugin.api().loaded_executable_execute,
            "LoadedExecutable_Execute",
            &mut args,
        )?;
        if results.iter().flatten().any(|r| r.is_null()) {
            return Err(Error::internal("PJRT_LoadedExecutable_Execute left a result out"));
        }
        let own = |r: Vec<Handle>| -> Vec<Buffer> {
            r.into_iter().map(|r| Buffer::new(self.client.clone(), r)).collect()
        };
        Ok(results.into_iter().map(own).collect())
    }
}

/// A program as the compiler made it, which need not be loaded anywhere.
pub struct Compiled {
    plugin: Arc<Plugin>,
    handle: Handle,
}

// SAFETY: as executables.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

/// Bytes of a program on the device, as the compiler counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Machine code.
    pub code: u64,
    /// Arguments.
    pub arguments: u64,
    /// Results.
    pub outputs: u64,
    /// Of the results, what lies in arguments' memory.
    pub aliases: u64,
    /// Everything between arguments and results.
    pub temporaries: u64,
    /// The most that is alive at once, if the plugin says so.
    pub peak: u64,
}

impl Compiled {
    pub(super) fn new(plugin: Arc<Plugin>, handle: Handle) -> Compiled {
        Compiled { plugin, handle }
    }

    fn outputs(&self) -> Result<usize> {
        let mut args = OutputsArgs { executable: self.handle, ..OutputsArgs::new() };
        let api = self.plugin.api();
        self.plugin.call(api.executable_num_outputs, "Executable_NumOutputs", &mut args)?;
        Ok(args.count)
    }

    /// Bytes of machine code.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub fn code_bytes(&self) -> Result<u64> {
        let mut args = CodeSizeArgs { executable: self.handle, ..CodeSizeArgs::new() };
        let size = self.plugin.api().executable_size_of_generated_code_in_bytes;
        self.plugin.call(size, "Executable_SizeOfGeneratedCodeInBytes", &mut args)?;
        Ok(u64::try_from(args.bytes).unwrap_or(0))
    }

    /// What it takes of the device's memory.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub fn memory(&self) -> Result<Memory> {
        let mut args = MemoryStatsArgs { executable: self.handle, ..MemoryStatsArgs::new() };
        let stats = self.plugin.api().executable_get_compiled_memory_stats;
        self.plugin.call(stats, "Executable_GetCompiledMemoryStats", &mut args)?;
        let bytes = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(Memory {
            code: bytes(args.code),
            arguments: bytes(args.arguments),
            outputs: bytes(args.outputs),
            aliases: bytes(args.aliases),
            temporaries: bytes(args.temporaries),
            peak: bytes(args.peak),
        })
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            let args = ExecutableArgs { executable: self.handle, ..ExecutableArgs::new() };
            self.plugin.destroy(self.plugin.api().executable_destroy, "Executable_Destroy", args);
        }
    }
}
