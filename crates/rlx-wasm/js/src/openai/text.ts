/** `engine.completions`: text that the model goes on with, without a template. */

import { usage as usageError } from '../error.js';
import { lazy } from '../lazy.js';
import type { WasmLikely } from '../wasm.js';
import { answerReader } from './answer.js';
import type { Delta } from './answer.js';
import { Call, whileWaiting } from './call.js';
import type { Asked, ChatContext, Step } from './call.js';
import { eachAnswer } from './chat.js';
import { textLogprobs } from './logprobs.js';
import { parameters } from './parameters.js';
import { LIKELIEST, number, SAMPLING, sampling, sliding, telling, truth } from './sampling.js';
import type { UsageMode } from './sampling.js';
import { signalOf } from './signal.js';
import { head, stream } from './stream.js';
import type { CallOptions, TextChunk, TextCompletion, TextCompletions, TextRequest, Usage } from './types.js';

const READ = { ...SAMPLING, prompt: true, echo: true, logprobs: true, grammar: true, overflow: true } as const;
/** OpenAI's default, where a server would otherwise fill the context. */
const MAX_TOKENS = 16;

type Prompt = string | readonly number[];

/** The prompts of a request: one, or several in a list. */
function promptsOf(prompt: unknown): Prompt[] {
  const isIds = (list: unknown): list is number[] =>
    Array.isArray(list) && list.length > 0 && list.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32);
  if (typeof prompt === 'string' || isIds(prompt)) return [prompt];
  if (Array.isArray(prompt) && prompt.length > 0 && prompt.every((one) => typeof one === 'string' || isIds(one))) {
    return prompt as Prompt[];
  }
  throw usageError('prompt must be a text, a list of token ids, or a list of either', 'prompt');
}

const textOf = (delta: Delta): string => ('text' in delta ? delta.text : '');
const endOf = (reason: string) => (reason === 'length' ? 'length' as const : 'stop' as const);

function chunker(modelName: string, mode: UsageMode, echoes: readonly string[], tellsLogprobs: boolean): (step: Step) => TextChunk[] {
  const common = { ...head('cmpl', modelName), object: 'text_completion' as const, ...(mode === 'own chunk' && { usage: null }) };
  /** Lengths of the texts of answers that have begun. */
  const begun = new Map<number, number>();
  return (step) => {
    const { index, likely } = step;
    const echo = begun.has(index) ? '' : echoes[index] ?? '';
    const from = begun.get(index) ?? 0;
    const logprobs = tellsLogprobs && likely.length > 0 ? textLogprobs(likely, from) : null;
    begun.set(index, from + (logprobs?.tokens.join('').length ?? 0));
    const choice = { index, text: echo, logprobs };
    if ('delta' in step) return [{ ...common, choices: [{ ...choice, text: echo + textOf(step.delta), finish_reason: null }] }];
    const end: TextChunk = { ...common, choices: [{ ...choice, finish_reason: endOf(step.reason) }] };
    if (!step.usage || mode === 'never') return [end];
    if (mode === 'own chunk') return [end, { ...common, choices: [], usage: step.usage }];
    return [{ ...end, usage: step.usage }];
  };
}

async function whole(modelName: string, call: Call, echoes: readonly string[], tellsLogprobs: boolean): Promise<TextCompletion> {
  const choices: TextCompletion['choices'] = [];
  let usage: Usage | undefined;
  let text = '';
  let likely: WasmLikely[] = [];
  for (;;) {
    const step = await call.next();
    if (!step) return { ...head('cmpl', modelName), object: 'text_completion', choices, usage: usage! };
    likely.push(...step.likely);
    if ('delta' in step) {
      text += textOf(step.delta);
      continue;
    }
    usage = step.usage;
    const { index } = step;
    const logprobs = tellsLogprobs ? textLogprobs(likely, 0) : null;
    choices.push({ index, text: (echoes[index] ?? '') + text, logprobs, finish_reason: endOf(step.reason) });
    [text, likely] = ['', []];
  }
}

export function textCompletions(cx: ChatContext): TextCompletions {
  const { engine } = cx;
  const create = async (request: TextRequest, options?: CallOptions) => {
    const since = cx.platform.now();
    const given = parameters(request, READ);
    const prompts = promptsOf(given.prompt);
    const { stream: streams, usage, n } = telling(given);
    const common = { ...sampling(given), ...sliding(given), messages: [], controls: false, logprobs: number(given, 'logprobs', LIKELIEST) ?? null };
    common.max_tokens ??= MAX_TOKENS;
    const echo = truth(given.echo, 'echo');
    const tellsLogprobs = common.logprobs !== null;
    if (echo && tellsLogprobs) throw usageError('logprobs of a prompt are not done by RLX', 'echo', 'leave echo or logprobs out');
    const signal = signalOf(request, options);
    const { grammar } = given;
    const holding = grammar === undefined ? undefined : lazy.held().then(({ hold }) => hold(cx, { grammar }));
    const [release, hold] = await whileWaiting(cx.queue.turn(signal), holding);
    const echoes: string[] = [];
    const answersOf = (prompt: Prompt): Asked[] => {
      const ids = typeof prompt === 'string' ? engine.tokenize(prompt, true) : Uint32Array.from(prompt);
      const text = typeof prompt === 'string' ? prompt : engine.detokenize(ids);
      const asked = eachAnswer({ ...common, prompt_ids: [...ids] }, n, () => answerReader({}, [], ''), hold);
      if (echo) echoes.push(...asked.map(() => text));
      return asked;
    };
    let call: Call;
    try {
      call = new Call(cx, prompts.flatMap(answersOf), signal, since);
    } catch (error) {
      release();
      throw error;
    }
    void call.ended.then(release);
    return streams ? stream(call, chunker(cx.modelName, usage, echoes, tellsLogprobs)) : whole(cx.modelName, call, echoes, tellsLogprobs);
  };
  return { create: create as TextCompletions['create'] };
}
