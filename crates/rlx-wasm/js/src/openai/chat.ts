/** `engine.chat.completions`: checks a request, runs it in its turn, formats the answers. */

import { lazy } from '../lazy.js';
import type { WasmLikely, WasmRequest } from '../wasm.js';
import { answerReader } from './answer.js';
import type { Delta } from './answer.js';
import { Call, whileWaiting } from './call.js';
import type { Asked, ChatContext, Step } from './call.js';
import { chatRequest } from './chat_request.js';
import type { UsageMode } from './sampling.js';
import { choiceLogprobs } from './logprobs.js';
import { signalOf } from './signal.js';
import { head, stream } from './stream.js';
import type {
  CallOptions, ChatCompletion, ChatCompletionChunk, ChatDelta, ChatRequest, Completions, ToolCall, Usage,
} from './types.js';

/** The same request once for each answer; each has a seed of its own. */
export function eachAnswer(request: WasmRequest, n: number, reader: Asked['reader'], hold?: Asked['hold']): Asked[] {
  return Array.from({ length: n }, (_, i) => {
    const seed = (request.seed + i) % (Number.MAX_SAFE_INTEGER + 1);
    return { request: { ...request, seed }, reader, counts: i === 0, hold };
  });
}

/** Nine letters and digits: Mistral's templates take no other id. */
function callId(): string {
  const signs = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
  return Array.from(crypto.getRandomValues(new Uint32Array(9)), (n) => signs[n % signs.length]).join('');
}

const toolCall = (called: ToolCall['function']): ToolCall => ({ id: callId(), type: 'function', function: called });

/** Makes chunks of steps. */
function chunker(modelName: string, mode: UsageMode, tellsLogprobs: boolean): (step: Step) => ChatCompletionChunk[] {
  const common = { ...head('chatcmpl', modelName), object: 'chat.completion.chunk' as const, ...(mode === 'own chunk' && { usage: null }) };
  /** Answers that have begun, and how many calls each has. */
  const begun = new Map<number, number>();
  const deltaOf = (index: number, delta: Delta): ChatDelta => {
    const calls = begun.get(index);
    const role = calls === undefined ? { role: 'assistant' as const } : {};
    if (calls === undefined) begun.set(index, 0);
    if ('text' in delta) return { ...role, content: delta.text };
    if ('thought' in delta) return { ...role, reasoning_content: delta.thought };
    begun.set(index, (calls ?? 0) + 1);
    return { ...role, tool_calls: [{ index: calls ?? 0, ...toolCall(delta.call) }] };
  };
  return (step) => {
    const { index, likely } = step;
    const logprobs = tellsLogprobs ? { logprobs: likely.length > 0 ? choiceLogprobs(likely) : null } : {};
    if ('delta' in step) return [{ ...common, choices: [{ index, delta: deltaOf(index, step.delta), ...logprobs, finish_reason: null }] }];
    const end: ChatCompletionChunk = { ...common, choices: [{ index, delta: {}, ...logprobs, finish_reason: step.reason }] };
    if (!step.usage || mode === 'never') return [end];
    if (mode === 'own chunk') return [end, { ...common, choices: [], usage: step.usage }];
    return [{ ...end, usage: step.usage }];
  };
}

async function whole(modelName: string, call: Call, tellsLogprobs: boolean): Promise<ChatCompletion> {
  const choices: ChatCompletion['choices'] = [];
  let usage: Usage | undefined;
  let [text, thought, calls]: [string, string, ToolCall[]] = ['', '', []];
  let likely: WasmLikely[] = [];
  for (;;) {
    const step = await call.next();
    if (!step) return { ...head('chatcmpl', modelName), object: 'chat.completion', choices, usage: usage! };
    likely.push(...step.likely);
    if ('delta' in step) {
      const { delta } = step;
      if ('text' in delta) text += delta.text;
      else if ('thought' in delta) thought += delta.thought;
      else calls.push(toolCall(delta.call));
      continue;
    }
    usage = step.usage;
    choices.push({
      index: step.index,
      message: {
        role: 'assistant',
        content: text === '' && calls.length > 0 ? null : text,
        refusal: null,
        ...(thought !== '' && { reasoning_content: thought }),
        ...(calls.length > 0 && { tool_calls: calls }),
      },
      logprobs: tellsLogprobs ? choiceLogprobs(likely) : null,
      finish_reason: step.reason,
    });
    [text, thought, calls, likely] = ['', '', [], []];
  }
}

export function completions(cx: ChatContext): Completions {
  const create = async (request: ChatRequest, options?: CallOptions) => {
    const since = cx.platform.now();
    const { wasm, form, tools, telling, held } = chatRequest(request, (tools) => cx.engine.template(tools));
    const tellsLogprobs = wasm.logprobs !== null;
    const signal = signalOf(request, options);
    const holding = held && lazy.held().then(({ hold }) => hold(cx, held, form, tools));
    const [release, hold] = await whileWaiting(cx.queue.turn(signal), holding);
    const asked = eachAnswer(wasm, telling.n, (promptEnd) => answerReader(form, tools, promptEnd), hold);
    const call = new Call(cx, asked, signal, since);
    void call.ended.then(release);
    return telling.stream ? stream(call, chunker(cx.modelName, telling.usage, tellsLogprobs)) : whole(cx.modelName, call, tellsLogprobs);
  };
  return { create: create as Completions['create'] };
}
