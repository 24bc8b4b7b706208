/** What the adapters use of an engine: `Engine` fits, and whatever else answers like it. */

import type { Engine } from '../engine.js';
import type { ChatRequest } from '../openai/types.js';

export type ChatEngine = Pick<Engine, 'chat' | 'info' | 'countTokens'>;

/** Settings of a call that say how it is answered: those of the adapters' own making, and those that change nothing, are none. */
export type Settings = Pick<ChatRequest, keyof typeof SETTINGS>;

export const SETTINGS = {
  max_tokens: true, max_completion_tokens: true, temperature: true, top_p: true, top_k: true, min_p: true,
  repetition_penalty: true, frequency_penalty: true, presence_penalty: true, logit_bias: true, seed: true, steps: true,
  threshold: true, editing_threshold: true, max_post_steps: true, stop: true, ignore_eos: true, parallel_tool_calls: true, response_format: true, grammar: true,
  reasoning_effort: true, chat_template_kwargs: true, overflow: true,
} as const;
