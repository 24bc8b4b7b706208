// One engine for all tabs of an origin.

import { Engine } from '/dist/index.js';

const engine = Engine.load({ model: new URL('/fixtures/gguf/llama.gguf', location.href), device: 'cpu', cache: false });
addEventListener('connect', ({ ports: [port] }) => Engine.serve(port, engine));
