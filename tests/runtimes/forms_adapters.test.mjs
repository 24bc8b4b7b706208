// The adapters ask for answers of a form and get them: under the real packages, in Node, on the CPU.

import { HumanMessage } from '@langchain/core/messages';
import { generateObject, generateText, jsonSchema, Output, tool } from 'ai';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { languageModel as aiModel } from '../../crates/rlx-wasm/js/dist/adapters/ai_sdk.js';
import { ChatRlx } from '../../crates/rlx-wasm/js/dist/adapters/langchain.js';
import { languageModel } from '../../crates/rlx-wasm/js/dist/adapters/language_model.js';
import { Engine } from '../../crates/rlx-wasm/js/dist/index.js';
import { withTemplate } from '../support/gguf_template.mjs';

const bytes = (path) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)));
const MODEL = [1, 2, 3].map((n) => new Blob([bytes(`models/rustdoc-29m/rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`)]));
const QUESTION = 'What does Vec::push do?';
/** Its texts are bounded, so that answers end. */
const METHOD = z.object({ summary: z.string().max(40), panics: z.boolean(), cost: z.enum(['constant', 'linear']) });
const PLAIN = {
  title: 'method', type: 'object', additionalProperties: false, required: ['summary', 'panics'],
  properties: { summary: { type: 'string', maxLength: 40 }, panics: { type: 'boolean' } },
};

function checkPlain(answer) {
  assert.deepEqual(Object.keys(answer).sort(), ['panics', 'summary']);
  assert.ok(typeof answer.summary === 'string' && [...answer.summary].length <= 40, answer.summary);
  assert.equal(typeof answer.panics, 'boolean');
}

let engine;
before(async () => {
  engine = await Engine.load({ model: MODEL, device: 'cpu', threads: 1 });
});
after(() => engine?.dispose());

test('the AI SDK gets objects of Zod and JSON schemas, and one of some choices', async () => {
  const ask = async (output) => (await generateText({ model: aiModel(engine), prompt: QUESTION, temperature: 0, output })).output;
  METHOD.parse(await ask(Output.object({ schema: METHOD })));
  checkPlain(await ask(Output.object({ schema: jsonSchema(PLAIN) })));
  METHOD.parse((await generateObject({ model: aiModel(engine), prompt: QUESTION, temperature: 0, schema: METHOD })).object);
  assert.ok(['method', 'macro'].includes(await ask(Output.choice({ options: ['method', 'macro'] }))));
});

test('LangChain gets objects of Zod and JSON schemas, whole, streamed and beside the message', async () => {
  const chat = new ChatRlx({ engine, temperature: 0 });
  METHOD.parse(await chat.withStructuredOutput(METHOD).invoke(QUESTION));
  const plain = chat.withStructuredOutput(PLAIN, { includeRaw: true });
  const { raw, parsed } = await plain.invoke([new HumanMessage(QUESTION)]);
  checkPlain(parsed);
  assert.deepEqual(JSON.parse(raw.content), parsed);
  let last;
  for await (const part of await chat.withStructuredOutput(PLAIN).stream(QUESTION)) last = part;
  assert.deepEqual(last, parsed);
});

test('a prompt with a responseConstraint has an answer of the schema, or one that the expression matches', async () => {
  const session = await languageModel({ engine }).create({ temperature: 0, topK: 1 });
  checkPlain(JSON.parse(await session.prompt(QUESTION, { responseConstraint: PLAIN })));
  assert.match(await session.prompt('Does it panic?', { responseConstraint: /yes|no/, omitResponseConstraintInput: true }), /^(yes|no)$/);
  let streamed = '';
  for await (const text of session.promptStreaming(QUESTION, { responseConstraint: PLAIN })) streamed += text;
  checkPlain(JSON.parse(streamed));
  await assert.rejects(session.prompt(QUESTION, { responseConstraint: { type: 'strange' } }), { name: 'NotSupportedError' });
  await assert.rejects(session.prompt(QUESTION, { responseConstraint: /a(?=b)/ }), { name: 'NotSupportedError' });
  session.destroy();
});

test('a forced call has arguments of its schema, of a model that would not call', async () => {
  const small = bytes('tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf');
  const template = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}{{ tools | tojson if tools else '' }}{{ '<|im_start|>assistant\n' }}{# <tool_call> </tool_call> #}";
  const own = await Engine.load({ model: new Blob([withTemplate(small, template)]), device: 'cpu', threads: 1 });
  const chat = new ChatRlx({ engine: own, temperature: 0 });
  METHOD.parse(await chat.withStructuredOutput(METHOD, { method: 'functionCalling', name: 'describe' }).invoke(QUESTION));
  const describe = tool({ description: 'Describes a method.', inputSchema: METHOD });
  const other = tool({ description: 'Does nothing.', inputSchema: z.object({}) });
  for (const toolChoice of ['required', { type: 'tool', toolName: 'describe' }]) {
    const { toolCalls, text } = await generateText({
      model: aiModel(own), prompt: QUESTION, temperature: 0, tools: { describe, other }, toolChoice, providerOptions: { rlx: { parallel_tool_calls: false } },
    });
    assert.deepEqual([toolCalls.length, text], [1, '']);
    if (toolChoice !== 'required') assert.equal(toolCalls[0].toolName, 'describe');
    if (toolCalls[0].toolName === 'describe') METHOD.parse(toolCalls[0].input);
  }
  own.dispose();
});
