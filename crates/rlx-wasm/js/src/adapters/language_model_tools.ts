/** Functions of the Prompt API that a model may call while it answers. */

import type { ChatTool, ToolCall } from '../openai/types.js';
import { fault } from './language_model_input.js';
import type { TextMessage } from './language_model_input.js';

/** A function that the model may call, with arguments by its schema. What it resolves to is told to the model. */
export interface LanguageModelTool {
  name: string;
  description: string;
  /** A JSON schema. */
  inputSchema: object;
  execute(args: never): Promise<string>;
}

/** A session's functions: how the model is told of them, and how they are called. */
export interface Tools {
  told: readonly ChatTool[];
  /** The results of calls, which run beside each other, as messages. Rejects as the first that fails. */
  run(calls: readonly ToolCall[]): Promise<TextMessage[]>;
}

export const NO_TOOLS: Tools = { told: [], run: async () => [] };

/** Throws `TypeError` for what is no function, or has the name of another. */
export function toTools(given: readonly LanguageModelTool[]): Tools {
  if (given.length === 0) return NO_TOOLS;
  const named = new Map<string, (args: never) => Promise<string>>();
  const told = given.map(({ name, description, inputSchema, execute }): ChatTool => {
    if (typeof execute !== 'function' || typeof inputSchema !== 'object' || inputSchema === null) {
      throw new TypeError(`the tool ${String(name)} must have an inputSchema and a function execute`);
    }
    if (named.has(name)) throw new TypeError(`two tools have the name ${name}`);
    named.set(name, execute);
    return { type: 'function', function: { name, description, parameters: { ...inputSchema } } };
  });
  const run = async ({ id, function: { name, arguments: text } }: ToolCall): Promise<TextMessage> => {
    const execute = named.get(name);
    if (!execute) throw fault('OperationError', `the model called ${name}, which is no tool of this session`);
    return { role: 'tool', tool_call_id: id, content: String(await execute(JSON.parse(text) as never)) };
  };
  return { told, run: (calls) => Promise.all(calls.map(run)) };
}
