/**
 * Conversations that are longer than the context: the oldest turns are left out, each whole. A turn is a user's message
 * with what answers it, calls of tools and their results too. A text without messages, which has no turns, loses its
 * oldest tokens.
 *
 * `rlx chat` does the same (`rlx-native/src/overflow.rs`).
 */

import { RlxError } from '../error.js';
import type { EngineInfo } from '../types.js';
import type { WasmRequest } from '../wasm.js';
import type { ChatContext } from './call.js';
import type { TemplateMessage } from './messages.js';
import type { Usage } from './types.js';

/** A request that fits. */
export interface Fitted {
  request: WasmRequest;
  /** Adds what was left out to the usage; `answered`: so many of the answer's tokens too, where it has slid. */
  count(usage: Usage, answered: number | undefined): void;
}

/** How much of a context an answer needs, and by how much prompts are shortened: a quarter of it. */
function share(context: number, { max_tokens }: WasmRequest): { quarter: number; most: number; room: number } {
  const quarter = Math.ceil(context / 4);
  const room = Math.min(max_tokens ?? quarter, quarter);
  return { quarter, room, most: context - room };
}

/**
 * Leaves out the oldest tokens of a text, but not those that begin any text, so that the answer has room. An answer that
 * fills the context goes on from its own newest tokens.
 */
function fitText({ engine }: Pick<ChatContext, 'engine'>, request: WasmRequest, all: readonly number[], context: number): Fitted {
  const begin = [...engine.tokenize('', true)];
  const stays = begin.every((id, i) => id === all[i]) ? begin : [];
  const { quarter, most } = share(context, request);
  const cut = Math.min(Math.ceil(Math.max(0, all.length - most) / quarter) * quarter, all.length - stays.length - 1);
  const prompt = cut > 0 ? [...stays, ...all.slice(stays.length + cut)] : all;
  return {
    request: { ...request, prompt_ids: prompt, slide_ids: stays },
    count(usage, answered) {
      const tokens = answered === undefined ? Math.max(cut, 0) : all.length - stays.length + answered;
      if (tokens > (usage.left_out?.tokens ?? 0)) usage.left_out = { messages: 0, tokens };
    },
  };
}

/** The number of each message's turn; `Infinity` for those that always stay. */
function turnsOf(messages: readonly TemplateMessage[]): number[] {
  let turn = -1;
  return messages.map(({ role }) => {
    if (role === 'system' || role === 'developer') return Infinity;
    // What an assistant says first of all is a turn too.
    if (role === 'user' || turn < 0) turn++;
    return turn;
  });
}

/**
 * Makes of a request's messages, or of its text, a prompt that leaves room for the answer, and what the answer goes on from when the
 * context is full.
 *
 * What is left out grows by a quarter of the context at a time, so that the next prompts begin as this one does.
 */
export async function fit({ engine, platform }: Pick<ChatContext, 'engine' | 'platform'>, request: WasmRequest): Promise<Fitted> {
  const { contextLength: context } = JSON.parse(engine.info()) as EngineInfo;
  const { messages, variables, prompt_ids: text } = request;
  if (text) return fitText({ engine }, request, text, context);
  const turns = turnsOf(messages);
  const newest = Math.max(0, ...turns.filter(Number.isFinite));
  /** The prompt without so many turns. */
  const without = async (left: number) => {
    await platform.yieldToPage();
    const kept = messages.filter((_, i) => turns[i]! >= left);
    return [...engine.tokenizeMessages(JSON.stringify({ messages: kept, variables }))];
  };
  /** The prompt without as few turns as make it so short, from a number on; else without all that may be left out. */
  const atMost = async (left: number, most: number) => {
    for (let high = newest; left < high;) {
      const middle = (left + high) >> 1;
      if ((await without(middle)).length <= most) high = middle;
      else left = middle + 1;
    }
    return { left, ids: await without(left) };
  };

  const { quarter, most, room } = share(context, request);
  const all = (await without(0)).length;
  const over = Math.ceil(Math.max(0, all - most) / quarter) * quarter;
  const prompt = await atMost(0, over === 0 ? most : all - over);
  if (prompt.ids.length > most) {
    const what = `what cannot be left out of the messages has ${prompt.ids.length} tokens, and an answer takes ${room}: the context holds ${context}`;
    throw new RlxError('context_full', what, { at: 'messages', hint: 'shorten the newest message or those of the system, or load with a longer context' });
  }
  const later = await atMost(prompt.left, context / 2);
  return {
    request: { ...request, prompt_ids: prompt.ids, slide_ids: later.ids },
    count(usage, answered) {
      const { left, ids } = answered === undefined ? prompt : later;
      const out = { messages: turns.filter((turn) => turn < left).length, tokens: all - ids.length + (answered ?? 0) };
      if (out.tokens > (usage.left_out?.tokens ?? 0)) usage.left_out = out;
    },
  };
}
