// The engine's worker with a fate.

import './fate.mjs';
import '/dist/engine_worker.js';
