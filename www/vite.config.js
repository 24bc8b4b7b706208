import { defineConfig } from 'vite';
import { offline } from './plugins/offline.js';
import { policy } from './plugins/policy.js';

export default defineConfig({
  // A file that is not there is missing. An application of one page would get that page in its place, and a model's
  // folder may lack files.
  appType: 'mpa',
  base: './', // the built demo works from any folder of any static server
  publicDir: '../models', // the default model's shards, at /rustdoc-29m/
  build: {
    target: 'es2022', emptyOutDir: true, assetsInlineLimit: 0, reportCompressedSize: false,
    // The package in a script of its own, so that scripts/size.mjs can say what it takes and what the page does.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'rlx', test: /rlx-wasm[\\/]js[\\/]dist[\\/](index|engine)\.js$/ }] } } },
  },
  worker: { format: 'es' }, // what an engine may never need is a file of its own, fetched when it is needed
  plugins: [policy(), offline()],
  clearScreen: false,
});
