/** A pipeline that draws, in a thread of its own. */

import type { DeviceChoice } from 'rlx-wasm';
import type { Source } from '../state/engine.js';
import { ModelThread } from '../state/thread.js';
import type { Listening } from '../state/thread.js';
import type { DrawAsk, DrawerInfo, Drawn, DrawTold, Order } from './protocol.js';

export class Drawer extends ModelThread<DrawAsk> {
  constructor() {
    super(new Worker(new URL('./drawer_worker.ts', import.meta.url), { type: 'module' }));
  }

  load(source: Source, device: DeviceChoice, listening: Listening): Promise<DrawerInfo> {
    return this.loaded<DrawerInfo>(source, device, listening);
  }

  draw(order: Order, onTold: (told: DrawTold) => void): Promise<Drawn> {
    return this.ask<Drawn>({ draw: order }, [], { onTold });
  }

  /** Ends the picture that is being drawn: it is rejected with `cancelled`. */
  stop(): Promise<object> {
    return this.ask<object>({ stop: true });
  }
}
