/** Without a framework: a form, a place for the answer, and a button that stops it. */

import { Engine, RlxError } from 'rlx-wasm';

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const form = byId<HTMLFormElement>('form');
const question = byId<HTMLInputElement>('question');
const answer = byId('answer');
const stop = byId<HTMLButtonElement>('stop');

const engine = await Engine.load({
  model: 'model.gguf',
  onProgress: ({ loadedBytes, totalBytes }) => {
    if (totalBytes) answer.textContent = `${Math.round((100 * loadedBytes) / totalBytes)} %`;
  },
});

let running: AbortController | undefined;
stop.addEventListener('click', () => running?.abort());
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  running?.abort();
  const { signal } = running = new AbortController();
  answer.textContent = '';
  try {
    const chunks = await engine.chat.completions.create({ messages: [{ role: 'user', content: question.value }], stream: true, signal });
    for await (const chunk of chunks) answer.append(chunk.choices[0]?.delta.content ?? '');
  } catch (error) {
    if (!(error instanceof RlxError && error.code === 'cancelled')) answer.textContent = String(error);
  }
});
