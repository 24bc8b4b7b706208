// A `gpu` whose adapter does not say that it is simulated, so that `auto` takes it. Runs in a page.

/** The same GPU under another name. */
export function asHardware(gpu) {
  return {
    get wgslLanguageFeatures() {
      return gpu.wgslLanguageFeatures;
    },
    async requestAdapter(options) {
      const adapter = await gpu.requestAdapter(options);
      if (!adapter) return adapter;
      const { subgroupMinSize, subgroupMaxSize } = adapter.info;
      const info = { vendor: 'tests', architecture: 'hardware', device: '', description: '', subgroupMinSize, subgroupMaxSize, isFallbackAdapter: false };
      return Object.defineProperty(adapter, 'info', { value: info });
    },
  };
}
