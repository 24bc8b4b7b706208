/**
 * wllama, llama.cpp in wasm, on the same file: in a document of its own, because it starts workers from texts, which the
 * page's policy does not allow. What it fetched and held goes with the frame.
 */

import { Engine } from 'rlx-wasm';
import { version } from '@wllama/wllama/package.json';
import type { Source } from '../state/engine.js';
import type { Candidate, Running } from './engines.js';
import type { FromPeer, ToPeer } from './peer_frame.js';

export const WLLAMA = version;

/** Loads a model by wllama on the CPU. */
export const wllama =
  (source: Source, threads: number): Candidate['load'] =>
  async (context, signal) => {
    const files = await filesOf(source.model, signal);
    const frame = document.createElement('iframe');
    frame.hidden = true;
    frame.title = 'wllama';
    frame.src = new URL('peers.html', document.baseURI).href;
    const channel = new MessageChannel();
    const ask = asker(channel.port1, signal);
    const dispose = () => {
      channel.port1.close();
      frame.remove();
    };
    try {
      await new Promise<void>((resolve, reject) => {
        addEventListener('message', function ready({ source: from, data }) {
          if (from !== frame.contentWindow || data !== 'ready') return;
          removeEventListener('message', ready);
          resolve();
        });
        frame.addEventListener('load', () =>
          setTimeout(() => reject(new Error('wllama’s page did not start')), 10_000),
        );
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        document.body.append(frame);
      });
      frame.contentWindow!.postMessage('port', location.origin, [channel.port2]);
      const { threads: runs } = (await ask({ load: { files, threads, context } })) as { threads: number };
      const running: Running = {
        executor: threads > 1 ? 'wllama-threads' : 'wllama-thread',
        adapter: `llama.cpp by wllama ${WLLAMA}, ${runs} ${runs === 1 ? 'thread' : 'threads'}`,
        threads: runs,
        weightBytes: null,
        turn: async ({ text }, tokens) =>
          (await ask({ turn: { text, tokens } })) as Awaited<ReturnType<Running['turn']>>,
        memory: async () => null,
        dispose,
      };
      return running;
    } catch (error) {
      dispose();
      throw error;
    }
  };

/** Asks one thing after another. */
function asker(port: MessagePort, signal: AbortSignal): (message: ToPeer) => Promise<unknown> {
  return (message) =>
    new Promise((resolve, reject) => {
      port.onmessage = ({ data }: MessageEvent<FromPeer>) =>
        'failed' in data ? reject(new Error(data.failed)) : resolve(data.done);
      if (signal.aborted) return reject(signal.reason as Error);
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      port.postMessage(message);
    });
}

/** The files of a model as wllama takes them: all shards, in GGUF. */
async function filesOf(model: Source['model'], signal: AbortSignal): Promise<Blob[]> {
  const items: readonly unknown[] = Array.isArray(model) ? model : [model];
  const found = await Promise.all(
    items.map(async (item) => {
      if (item instanceof Blob) return [item];
      if (typeof item !== 'string' && !(item instanceof URL)) return [];
      const addresses = items.length === 1 ? await addressesOf(String(item)) : [String(item)];
      return Promise.all(addresses.map((address) => fetched(address, signal)));
    }),
  );
  const files = found.flat();
  const gguf = files.length > 0 && files.every((each) => /\.gguf$/i.test((each as File).name));
  if (!gguf) throw new Error('wllama reads GGUF files alone');
  return files;
}

/** A name of the Hub stands for files that the package found and stores; one shard for all. */
async function addressesOf(item: string): Promise<string[]> {
  if (item.startsWith('hf:')) {
    const repository = item.slice(3).split(/[:@]/)[0]!;
    const stored = (await Engine.models.list()).find(({ files: [file] }) => file?.url.includes(`/${repository}/`));
    if (!stored)
      throw new Error(
        'wllama gets the addresses of what this browser stores of the Hub, and it stores nothing of this model',
      );
    return stored.files.map(({ url }) => url).sort();
  }
  const [, before, count, behind] = /^(.*-)\d{5}-of-(\d{5})(\.gguf.*)$/i.exec(item) ?? [];
  if (!count) return [item];
  const numbers = Array.from({ length: Math.min(Number(count), 999) }, (_, i) => String(i + 1).padStart(5, '0'));
  return numbers.map((number) => `${before}${number}-of-${count}${behind}`);
}

async function fetched(address: string, signal: AbortSignal): Promise<File> {
  const response = await fetch(address, { signal });
  if (!response.ok) throw new Error(`${address}: the server answers ${response.status}`);
  return new File([await response.blob()], address.split(/[?#]/)[0]!.split('/').at(-1)!);
}
