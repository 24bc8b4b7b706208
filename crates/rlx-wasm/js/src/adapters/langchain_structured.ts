/** What LangChain's `withStructuredOutput` is given, as the engine takes it. */

import { toJsonSchema } from '@langchain/core/utils/json_schema';
import type { SerializableSchema } from '@langchain/core/utils/standard_schema';
import { getSchemaDescription, isInteropZodSchema } from '@langchain/core/utils/types';
import type { InteropZodType } from '@langchain/core/utils/types';
import type { ChatTool } from '../openai/types.js';

/** A schema of Zod's, a standard schema, a JSON schema, or a function as OpenAI describes it. */
export type OutputSchema<Output extends object> = SerializableSchema<Output> | InteropZodType<Output> | Record<string, unknown>;

/** The function whose arguments are the output. */
type Described = Required<NonNullable<ChatTool['function']>>;

const isFunction = (schema: { name?: unknown; parameters?: unknown }): schema is { name: string; parameters: { [key: string]: unknown } } =>
  !isInteropZodSchema(schema) && typeof schema.name === 'string' && typeof schema.parameters === 'object' && schema.parameters !== null;

/** The output as a function's arguments. `name` is the caller's; else it is the schema's own, or `extract`, as LangChain has it. */
export function describe(schema: object, name?: string): Pick<Described, 'name' | 'description' | 'parameters'> {
  const parameters = isFunction(schema) ? schema.parameters : toJsonSchema(schema as never) as { [key: string]: unknown };
  const own = isFunction(schema) ? schema.name : parameters.title;
  const description = (schema as { description?: unknown }).description ?? getSchemaDescription(schema as never);
  return {
    name: name ?? (typeof own === 'string' && /^[\w.-]{1,64}$/.test(own) ? own : 'extract'),
    description: typeof description === 'string' ? description : 'A function available to call.',
    parameters,
  };
}
