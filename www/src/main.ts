/**
 * The demo. What it does with RLX is in three functions: `load`, `answer` and `newChat`; the rest
 * is the page.
 *
 * In the address: `?device=webgpu` or `cpu`, and `?model=` with addresses of shards, separated by
 * commas.
 */

import { Engine, RlxError } from 'rlx-wasm';
import type { ChatMessage, DeviceChoice, LoadOptions } from 'rlx-wasm';
import { megabytes, render } from './render.js';

const element = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T;
const conversation = element('conversation');
const prompt = element<HTMLTextAreaElement>('prompt');
const send = element<HTMLButtonElement>('send');
const stop = element<HTMLButtonElement>('stop');
const newChatButton = element<HTMLButtonElement>('new-chat');
const progress = element<HTMLProgressElement>('progress');

const DEFAULT_MODEL = [1, 2, 3].map((n) => `rustdoc-29m/rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`);
const QUESTIONS = [
  'What does Vec::push do?',
  'What is ownership?',
  'Show an example of Option::map.',
  'How do I read a file to a string?',
  'What is the difference between String and &str?',
];

/** What is said instead of how many bytes have come. */
const TASKS: { [phase: string]: string | undefined } = {
  compile: 'Compiling the model for this device',
  check: 'Comparing this GPU with the CPU, the first time only',
};

let engine: Engine | undefined;
let messages: ChatMessage[] = [];
let loading: AbortController | undefined;
let answering: AbortController | undefined;

async function load(model: LoadOptions['model'], device: DeviceChoice): Promise<void> {
  loading?.abort();
  answering?.abort();
  const abort = (loading = new AbortController());
  engine?.dispose();
  engine = undefined;
  newChat();
  showError(undefined);
  element('notice').hidden = true;
  element('loading').hidden = false;
  progress.removeAttribute('value');
  element('status').textContent = 'Loading';
  try {
    const loaded = await Engine.load({
      model,
      device,
      signal: abort.signal,
      onProgress: ({ phase, loadedBytes, totalBytes, from }) => {
        if (totalBytes) progress.value = loadedBytes / totalBytes;
        const of = totalBytes ? ` of ${megabytes(totalBytes)}` : '';
        const where = from === 'cache' ? ' from this browser’s storage' : '';
        element('loading-text').textContent = TASKS[phase] ?? `${megabytes(loadedBytes)}${of}${where}`;
      },
      onNotice: ({ message }) => {
        element('notice').textContent = message;
        element('notice').hidden = false;
      },
    });
    if (abort.signal.aborted) return loaded.dispose(); // another model was chosen
    engine = loaded;
    element('loading').hidden = true;
    showStatus();
    showReady();
    prompt.focus();
  } catch (error) {
    if (abort.signal.aborted) return;
    element('loading').hidden = true;
    element('status').textContent = 'No model loaded';
    showError(error);
  }
  showReady();
}

async function answer(question: string): Promise<void> {
  if (!engine || answering) return;
  const abort = (answering = new AbortController());
  const turn: ChatMessage[] = [...messages, { role: 'user', content: question }];
  messages = turn;
  showError(undefined);
  element('welcome').hidden = true;
  addMessage('user').textContent = question;
  const view = addMessage('assistant');
  view.classList.add('waiting');
  showReady();

  let text = '';
  try {
    const chunks = await engine.chat.completions.create({ messages: turn, stream: true, temperature: 0, signal: abort.signal });
    for await (const chunk of chunks) {
      text += chunk.choices[0]?.delta.content ?? '';
      const atEnd = conversation.scrollHeight - conversation.scrollTop - conversation.clientHeight < 40;
      view.replaceChildren(render(text));
      if (atEnd) conversation.scrollTop = conversation.scrollHeight;
      if (chunk.choices[0]?.finish_reason === 'length') addRemark(view, 'The context is full: start a new chat.');
    }
  } catch (error) {
    if (error instanceof RlxError && error.code === 'cancelled') addRemark(view, 'Stopped.');
    else showError(error);
  }
  view.classList.remove('waiting');
  answering = undefined;
  // What was said so far stays part of the conversation, unless a new one has begun meanwhile.
  if (messages === turn) messages = [...turn, { role: 'assistant', content: text }];
  showStatus();
  showReady();
}

function newChat(): void {
  answering?.abort();
  messages = [];
  conversation.querySelectorAll('.message').forEach((view) => view.remove());
  element('welcome').hidden = false;
  showReady();
}

function addMessage(role: 'user' | 'assistant'): HTMLElement {
  const view = document.createElement('article');
  view.className = `message ${role}`;
  view.setAttribute('aria-label', role === 'user' ? 'You' : 'Model');
  conversation.append(view);
  conversation.scrollTop = conversation.scrollHeight;
  return view;
}

function addRemark(view: HTMLElement, text: string): void {
  view.append(Object.assign(document.createElement('p'), { className: 'stopped', textContent: text }));
}

function showReady(): void {
  const idle = engine !== undefined && answering === undefined;
  prompt.disabled = engine === undefined;
  send.disabled = !idle;
  send.hidden = answering !== undefined;
  stop.hidden = answering === undefined;
  newChatButton.disabled = engine === undefined;
  conversation.setAttribute('aria-busy', String(answering !== undefined));
  for (const button of element('questions').querySelectorAll('button')) button.disabled = !idle;
}

function showStatus(): void {
  if (!engine) return;
  const info = engine.info();
  const speed = info.decodeTokensPerSecond;
  element('status').textContent = [
    info.model.name,
    info.device === 'webgpu' ? `WebGPU: ${info.adapter}` : `CPU: ${info.adapter}`,
    info.fallbackReason && `not WebGPU, because ${info.fallbackReason}`,
    `${megabytes(info.weightBytes)} of weights`,
    speed && `${speed.toFixed(1)} tokens/s`,
  ].filter(Boolean).join(' · ');
}

function showError(error: unknown): void {
  element('error').hidden = error === undefined;
  if (error === undefined) return;
  const known = error instanceof RlxError ? error : undefined;
  element('error-what').textContent = known ? known.what + (known.at && ` (${known.at})`) : String(error);
  element('error-hint').textContent = known?.hint ?? '';
}

function ask(question: string): void {
  if (question.trim() !== '' && engine && !answering) {
    prompt.value = '';
    void answer(question.trim());
  }
}

element('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  ask(prompt.value);
});
prompt.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask(prompt.value);
});
stop.addEventListener('click', () => answering?.abort());
newChatButton.addEventListener('click', newChat);

const parameters = new URLSearchParams(location.search);
const device = (parameters.get('device') ?? 'auto') as DeviceChoice;
const files = element<HTMLInputElement>('files');
files.addEventListener('change', () => {
  if (files.files?.length) void load([...files.files], device);
  files.value = ''; // the same files may be chosen again
});
for (const question of QUESTIONS) {
  const button = Object.assign(document.createElement('button'), { type: 'button', textContent: question });
  button.addEventListener('click', () => ask(question));
  element('questions').append(button);
}
void load(parameters.get('model')?.split(',') ?? DEFAULT_MODEL, device);
