/** What a conversation is made of, as it is shown, stored, exported and imported. */

/** How tokens are chosen. What is absent is as the model's file has it. */
export interface Settings {
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  repetition_penalty?: number;
  max_tokens?: number;
  seed?: number;
}

/** A text file that goes with a question. */
export interface Attachment {
  name: string;
  text: string;
}

/** How fast an answer came. */
export interface Speed {
  /** Tokens of the answer; while it comes, pieces of text, of which each is about a token. */
  tokens: number;
  firstTokenMs: number | null;
  tokensPerSecond: number | null;
}

/** A function that the model called, with its arguments as JSON, and what it was told. */
export interface Call {
  name: string;
  arguments: string;
  result: string;
  /** The result says what went wrong. */
  failed?: true;
}

/**
 * Why an answer is not whole: it was stopped, it reached the longest length that was set, the context was full, functions
 * were called again and again, or it failed.
 */
export type End = 'stopped' | 'length' | 'context' | 'calls' | 'failed';

export const ENDS: readonly End[] = ['stopped', 'length', 'context', 'calls', 'failed'];

export interface Message {
  id: string;
  role: 'user' | 'assistant';
  text: string;
  /** What the model thought before it answered. */
  reasoning?: string;
  attachments?: readonly Attachment[];
  /** Functions that the model called behind this text; the next message of the assistant goes on with their results. */
  calls?: readonly Call[];
  end?: End;
  /** What went wrong, where `end` is `failed`. */
  fault?: string;
  speed?: Speed;
}

export interface Conversation {
  id: string;
  title: string;
  /** Milliseconds since 1970. */
  created: number;
  updated: number;
  /** The name of the model that answered last. */
  model: string;
  system: string;
  settings: Settings;
  /** Whether the model may call functions, where it can. */
  functions: boolean;
  messages: readonly Message[];
}

/** A name that no other has; `randomUUID` is there in secure contexts alone. */
export function newId(): string {
  return (
    globalThis.crypto.randomUUID?.() ??
    Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join('-')
  );
}
