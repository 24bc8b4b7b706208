/**
 * The demo. The model begins to load before anything is drawn, and nothing on the way to the first answer waits for
 * what it does not need.
 *
 * In the address: `?device=webgpu` or `cpu`, and `?model=` with addresses of shards, separated by commas.
 */

import './trusted.js';
import { render } from 'preact';
import { App } from './app.js';
import { keepOffline } from './offline/keep.js';
import { BUILT_IN, fromAddress } from './state/built_in.js';
import { restore } from './state/conversations.js';
import { load } from './state/engine.js';
import { resume } from './state/resume.js';

void load(fromAddress(location.search) ?? BUILT_IN);
render(<App />, document.getElementById('app')!);
void restore().then(resume);
keepOffline();
