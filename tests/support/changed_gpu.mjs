// A `gpu` to inject of which a test changes a part. Runs in a page, in Node and in Deno.

/** The same GPU; `adapter` and `device` change what it hands out, or give something else in its place. */
export function changedGpu(gpu, { adapter: changeAdapter, device: changeDevice }) {
  return {
    get wgslLanguageFeatures() {
      return gpu.wgslLanguageFeatures;
    },
    async requestAdapter(options) {
      const adapter = await gpu.requestAdapter(options);
      if (!adapter) return adapter;
      const requestDevice = adapter.requestDevice.bind(adapter);
      if (changeDevice) {
        adapter.requestDevice = async (descriptor) => {
          const device = await requestDevice(descriptor);
          return changeDevice(device) ?? device;
        };
      }
      return changeAdapter?.(adapter) ?? adapter;
    },
  };
}
