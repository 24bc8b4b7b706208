import { defineConfig } from 'vite';

export default defineConfig({
  base: './', // the built demo works from any folder of any static server
  publicDir: '../models', // the default model's shards, at /rustdoc-29m/
  build: { target: 'es2022', emptyOutDir: true, assetsInlineLimit: 0, reportCompressedSize: false },
  worker: { format: 'es' }, // what an engine may never need is a file of its own, fetched when it is needed
  clearScreen: false,
});
