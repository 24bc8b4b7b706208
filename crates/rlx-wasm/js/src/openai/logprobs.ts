/** How likely tokens were, in OpenAI's shapes. */

import type { WasmLikely, WasmLogprob } from '../wasm.js';
import type { ChoiceLogprobs, TextLogprobs, TopLogprob } from './types.js';

/** OpenAI's number for a token that cannot come. */
const NEVER = -9999;

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Bytes that are no whole characters are U+FFFD in a token's text. */
function told([, logprob, bytes]: WasmLogprob): TopLogprob {
  return { token: decoder.decode(Uint8Array.from(bytes)), logprob: logprob ?? NEVER, bytes: [...bytes] };
}

/** Of a chat. */
export function choiceLogprobs(likely: readonly WasmLikely[]): ChoiceLogprobs {
  return { content: likely.map(({ chosen, top }) => ({ ...told(chosen), top_logprobs: top.map(told) })), refusal: null };
}

/** Of a text; `from` is where in it the first token begins. */
export function textLogprobs(likely: readonly WasmLikely[], from: number): TextLogprobs {
  const made: TextLogprobs = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
  let offset = from;
  for (const { chosen, top } of likely) {
    const { token, logprob } = told(chosen);
    made.tokens.push(token);
    made.token_logprobs.push(logprob);
    // The chosen token is among them, as in OpenAI's.
    made.top_logprobs.push(Object.fromEntries([...top, chosen].map(told).map((one) => [one.token, one.logprob])));
    made.text_offset.push(offset);
    offset += token.length;
  }
  return made;
}
