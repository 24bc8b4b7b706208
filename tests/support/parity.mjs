// Recorded answers asked of an engine; runs in a page, in Node and in Deno. `cases.json` says
// which models and devices, `expected.json` of a model what llama.cpp answered.

/** Whether a device runs a case; some that are slow do with RLX_WIDE alone. */
export const runsOn = ({ devices, wide = [] }, device) => devices.includes(device) && (Boolean(process.env.RLX_WIDE) || !wide.includes(device));

/** How much of a case a device runs; all of it with RLX_WIDE. */
const limitsOf = (testCase, device) => (process.env.RLX_WIDE ? {} : testCase.limits?.[device] ?? {});

/** How many tokens of an answer a device is asked for. */
export const tokensOf = (testCase, expected, device) =>
  Math.min(limitsOf(testCase, device).tokens ?? Infinity, expected.max_new_tokens);

/** The questions of a case that a device is asked. */
export function questionsOf(testCase, expected, device) {
  const { shortest = Infinity } = limitsOf(testCase, device);
  const all = expected.questions.map(({ messages, prompt_ids, formats }) => {
    const { tokens, text } = formats[testCase.format];
    // The recorded end token counts as a token and is no text.
    const reason = tokens.at(-1) === expected.eos_token_id ? 'stop' : 'length';
    return { messages, promptTokens: prompt_ids.length, tokens: tokens.length, text, reason };
  });
  const fewest = [...all].sort((a, b) => a.tokens - b.tokens).slice(0, shortest);
  return all.filter((question) => fewest.includes(question));
}

/**
 * Answers greedily; what differs from what was recorded, in words. Empty when nothing does. Of an answer that is
 * longer than `maxTokens` the beginning is compared.
 */
export async function differences(engine, questions, maxTokens) {
  const found = [];
  for (const { messages, promptTokens, tokens, text, reason } of questions) {
    const answer = await engine.chat.completions.create({ messages, temperature: 0, max_tokens: maxTokens });
    const { message, finish_reason } = answer.choices[0];
    const got = {
      text: message.content,
      reason: finish_reason,
      prompt: answer.usage.prompt_tokens,
      tokens: answer.usage.completion_tokens,
    };
    const cut = tokens > maxTokens;
    const begins = cut && got.text.length > 0 && text.startsWith(got.text);
    const wanted = {
      text: begins ? got.text : text,
      reason: cut ? 'length' : reason,
      prompt: promptTokens,
      tokens: cut ? maxTokens : tokens,
    };
    if (JSON.stringify(got) !== JSON.stringify(wanted)) {
      found.push(`${messages.at(-1).content}: ${JSON.stringify(got)} instead of ${JSON.stringify(wanted)}`);
    }
  }
  return found;
}

/**
 * What one more token of an answer costs, counted from outside by `countGpu`: two answers that
 * differ only in length, their prompt reused.
 */
export async function costOfToken(engine, counts, messages) {
  const costs = [];
  for (const max_tokens of [1, 2, 6]) {
    const before = { ...counts };
    await engine.chat.completions.create({ messages, temperature: 0, max_tokens });
    costs.push(['dispatches', 'submits', 'mappedBytes'].map((key) => counts[key] - before[key]));
  }
  const [, short, long] = costs; // the first answer leaves its prompt in the cache
  const [dispatches, submits, mappedBytes] = long.map((n, i) => (n - short[i]) / 4);
  return { dispatches, submits, mappedBytes };
}
