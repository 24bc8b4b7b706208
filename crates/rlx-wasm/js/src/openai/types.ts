/**
 * Requests and answers in OpenAI's shapes. A type of a request is as wide as OpenAI's own, so that values which have its
 * types are accepted; what RLX does not do is then refused by name when the call is made.
 */

/** A part of a message. Only `text` is read; others are refused. */
export interface ContentPart {
  type: string;
  text?: string;
}

/** A call of a function, as an answer has it and as it is sent back. */
export interface ToolCall {
  id: string;
  type: 'function';
  function: {
    name: string;
    /** JSON, as a text. */
    arguments: string;
  };
}

/** A message of a conversation. */
export interface ChatMessage {
  /** `developer` is `system` where the model's template has no such role; `function`, the old `tool`, is refused. */
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | 'function';
  /** Text, or parts of it, which become lines. Only an assistant's message may have none. */
  content?: string | readonly ContentPart[] | null | undefined;
  /** Who speaks; templates that know no names leave it out. */
  name?: string | undefined;
  /** Functions that the assistant called. */
  tool_calls?: readonly (Pick<ToolCall, 'id'> & { type: string; function?: ToolCall['function'] })[] | null | undefined;
  /** The call that a message of role `tool` answers. */
  tool_call_id?: string | undefined;
  /** What the assistant thought, as its answer had it. */
  reasoning_content?: string | null | undefined;
  refusal?: string | null | undefined;
}

/** A function that the model may call. */
export interface ChatTool {
  /** `custom` is refused. */
  type: 'function' | 'custom';
  function?: {
    name: string;
    description?: string | undefined;
    /** A JSON schema. */
    parameters?: { [key: string]: unknown } | undefined;
    /** Calls of this function are held to `parameters`. */
    strict?: boolean | null | undefined;
  };
}

/** How tokens are chosen, and how many. `undefined` and `null` are as if left out. */
export interface SamplingRequest {
  /** Ignored: an engine has one model. Accepted so that code for a server runs unchanged. */
  model?: string | undefined;
  /** Answers to the same prompt, 1 to 128, one after another; with a seed, answer `i` has `seed + i`. Default 1. */
  n?: number | null | undefined;
  /** Most tokens of the answer, 1 or more. Default: the rest of the context; with `overflow: 'slide'` as many as it has. */
  max_tokens?: number | null | undefined;
  /** 0 to 2; 0 is greedy. Default: the file's, or 0.7. */
  temperature?: number | null | undefined;
  /** Above 0, at most 1. Default 1 (off). */
  top_p?: number | null | undefined;
  /** Whole, 0 or more. Default 0 (off). */
  top_k?: number | null | undefined;
  /** 0 to 1. Default 0 (off). */
  min_p?: number | null | undefined;
  /** Above 0, at most 2. Default 1 (off). */
  repetition_penalty?: number | null | undefined;
  /** -2 to 2. Default 0 (off). */
  frequency_penalty?: number | null | undefined;
  /** -2 to 2. Default 0 (off). */
  presence_penalty?: number | null | undefined;
  /** -100 to 100, by token id: added to the token's logit, to the next 256th. */
  logit_bias?: { [id: string]: number } | null | undefined;
  /** Whole, 0 to 2^53 - 1. Equal seeds give equal answers. Default: random. */
  seed?: number | null | undefined;
  /** Passes that a block is spread over, 1 or more, for a model that fills blocks. Default: one for each position. */
  steps?: number | null | undefined;
  /** 0 to 1: a pass over a block fixes every token of more than this probability. Default: the model's. */
  threshold?: number | null | undefined;
  /** 0 to 1: a pass replaces tokens of the block by others of more than this probability. Default: off. */
  editing_threshold?: number | null | undefined;
  /** Whole, 0 to 1024: passes behind a block's last mask, at most. Default 16. */
  max_post_steps?: number | null | undefined;
  /** Up to 16 texts, none empty, that end the answer and are not part of it. */
  stop?: string | readonly string[] | null | undefined;
  /**
   * The model's tokens that end an answer are tokens like others: it goes on to `max_tokens`, so that measurements are of
   * equal length. Default false.
   */
  ignore_eos?: boolean | null | undefined;
  stream?: boolean | null | undefined;
  stream_options?: StreamOptions | null | undefined;
  /** Stops the answer, or takes a waiting call out of the queue; see `create`. */
  signal?: AbortSignal | undefined;
  /** Ignored, as are `metadata`, `safety_identifier`, `service_tier` and the options of prompt caches. */
  user?: string | undefined;
}

/** Options of a stream. */
export interface StreamOptions {
  /**
   * True: a last chunk of its own, with no choices, has the usage, and the others have `usage: null`. False: none has it.
   * If it is not given, the chunk that ends the last answer has it.
   */
  include_usage?: boolean | undefined;
  /** Ignored. */
  include_obfuscation?: boolean | undefined;
}

/** `json_schema` is beside the type `json_schema`. */
export interface ResponseFormat {
  type: string;
  json_schema?: {
    /** Ignored, as are `description` and `strict`: an answer is always held to the schema. */
    name?: string;
    description?: string | undefined;
    schema?: { [key: string]: unknown } | undefined;
    strict?: boolean | null | undefined;
  };
}

/** A grammar: a text in llama.cpp's GBNF; or its syntax, of which `lark` is llguidance's, and its text. */
export type AnswerGrammar = string | { syntax: 'gbnf' | 'lark' | 'regex'; definition: string };

/** A request to `chat.completions.create`. README lists what is done with each of OpenAI's parameters. */
export interface ChatRequest extends SamplingRequest {
  messages: readonly ChatMessage[];
  /** Most tokens of the answer: OpenAI's new name of `max_tokens`. */
  max_completion_tokens?: number | null | undefined;
  /**
   * What happens where the context is full. `error`, the default: an answer ends, and a longer prompt is `context_full`.
   * `slide`: the oldest turns are left out, each whole, and of an answer that goes on its oldest tokens; the messages of
   * system and developer and the newest of a user stay. `usage.left_out` says what was left out. Refused for a model
   * that fills blocks.
   */
  overflow?: 'error' | 'slide' | null | undefined;
  /** Functions that the model may call, if its template takes any. */
  tools?: readonly ChatTool[] | null | undefined;
  /**
   * `none` keeps the tools from the model. `required`, and one function by its name, force calls, which are held to the
   * functions' schemas. Default `auto`.
   */
  tool_choice?: 'auto' | 'none' | 'required' | object | null | undefined;
  /** False: at most one call. */
  parallel_tool_calls?: boolean | null | undefined;
  /** For templates that take it; `none` also turns thoughts off where a template has `enable_thinking`. Ignored by others. */
  reasoning_effort?: string | null | undefined;
  /** Tell how likely tokens were, at temperature 1, before penalties and biases. The first call that asks compiles for it. */
  logprobs?: boolean | null | undefined;
  /** Beside `logprobs`: how many of the likeliest tokens are told in each token's place, 0 to 20. */
  top_logprobs?: number | null | undefined;
  /** Variables of the model's template, such as `enable_thinking: false`. Those that it does not have are refused. */
  chat_template_kwargs?: { [name: string]: unknown } | null | undefined;
  metadata?: { [key: string]: string } | null | undefined;
  service_tier?: string | null | undefined;
  safety_identifier?: string | null | undefined;
  prompt_cache_key?: string | null | undefined;
  /** True is refused: nothing is stored. */
  store?: boolean | null | undefined;
  /**
   * The form of the answer's text, thoughts and calls aside: `text`, `json_object`, or `json_schema`. A keyword of a schema
   * that is not known is an error. An answer that ends by `length` is cut off.
   */
  response_format?: ResponseFormat | null | undefined;
  /** As `response_format`, by a grammar of one's own. */
  grammar?: AnswerGrammar | null | undefined;
  /** Others than `text` are refused. */
  modalities?: readonly string[] | null | undefined;
}

/** A request to `completions.create`: text that the model goes on with, without a template. */
export interface TextRequest extends SamplingRequest {
  /** A text, or token ids, or several of either. Control tokens in a text are recognised. */
  prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[] | null;
  /** Begin each answer with its prompt. */
  echo?: boolean | null | undefined;
  /** The form of the text, by a grammar. */
  grammar?: AnswerGrammar | null | undefined;
  /**
   * What happens where the context is full. `error`, the default: an answer ends, and a longer prompt is `context_full`.
   * `slide`: the prompt's oldest tokens are left out, but for those that begin every text; an answer goes on from its
   * own newest tokens.
   */
  overflow?: 'error' | 'slide' | null | undefined;
  /** Tell how likely tokens were, and so many of the likeliest, 0 to 20. Refused beside `echo`; else as in a chat. */
  logprobs?: number | null | undefined;
}

/** What `create` may be told besides the request. */
export interface CallOptions {
  /** As the request's own. */
  signal?: AbortSignal | null | undefined;
}

/** A token with the natural logarithm of its probability; -9999 if it cannot come. */
export interface TopLogprob {
  token: string;
  logprob: number;
  bytes: number[] | null;
}

/** How likely the tokens of an answer were, those of thoughts and calls included, but for the one that ends it. */
export interface ChoiceLogprobs {
  content: (TopLogprob & { top_logprobs: TopLogprob[] })[];
  refusal: null;
}

/** How likely the tokens of a text were. */
export interface TextLogprobs {
  tokens: string[];
  token_logprobs: number[];
  top_logprobs: { [token: string]: number }[];
  text_offset: number[];
}

export type FinishReason = 'stop' | 'length' | 'tool_calls';

export interface Usage {
  /** A prompt of several answers counts once. */
  prompt_tokens: number;
  completion_tokens: number;
  /** Tokens that each pass over a block fixed; only of a model that fills blocks. */
  tokens_per_pass?: number[];
  /**
   * What was left out of a full context when the answer ended, if anything was: the oldest messages, those of system and
   * developer aside, and tokens of these and of the answer. Only with `overflow: 'slide'`; of several answers the most.
   */
  left_out?: { messages: number; tokens: number };
  total_tokens: number;
  /** How long it took, by WebLLM's names. Rates are of the last answer, and null where there was too little to measure. */
  extra?: {
    /** Seconds from the call to the end of its answers, waiting for its turn included. */
    e2e_latency_s: number;
    /** Seconds from the call to its first token; null if there was none. */
    time_to_first_token_s: number | null;
    /** Tokens of the prompt that were computed, per second. */
    prefill_tokens_per_s: number | null;
    /** Tokens of the answer behind its first, per second. */
    decode_tokens_per_s: number | null;
  };
}

/** What a chunk adds to an answer. */
export interface ChatDelta {
  role?: 'assistant';
  content?: string | null;
  /** Of what the model thinks before it answers. */
  reasoning_content?: string;
  /** Whole calls, in order. */
  tool_calls?: (ToolCall & { index: number })[];
}

/** A chunk of a streamed answer. */
export interface ChatCompletionChunk {
  id: string;
  object: 'chat.completion.chunk';
  /** Seconds since 1970. */
  created: number;
  model: string;
  choices: {
    index: number;
    delta: ChatDelta;
    /** Only if they are asked for. */
    logprobs?: ChoiceLogprobs | null;
    finish_reason: FinishReason | null;
  }[];
  usage?: Usage | null;
}

/** The message of an answer. It may be sent back as it is. */
export interface AnswerMessage {
  role: 'assistant';
  /** Null if the answer is nothing but calls. */
  content: string | null;
  refusal: null;
  /** What the model thought before it answered. */
  reasoning_content?: string;
  tool_calls?: ToolCall[];
}

/** A whole answer. */
export interface ChatCompletion {
  id: string;
  object: 'chat.completion';
  /** Seconds since 1970. */
  created: number;
  model: string;
  choices: {
    index: number;
    message: AnswerMessage;
    logprobs: ChoiceLogprobs | null;
    finish_reason: FinishReason;
  }[];
  usage: Usage;
}

/** Text that goes on from a prompt. */
export interface TextCompletion {
  id: string;
  object: 'text_completion';
  /** Seconds since 1970. */
  created: number;
  model: string;
  choices: {
    index: number;
    text: string;
    logprobs: TextLogprobs | null;
    finish_reason: 'stop' | 'length';
  }[];
  usage: Usage;
}

/** A chunk of it. */
export interface TextChunk extends Omit<TextCompletion, 'choices' | 'usage'> {
  choices: {
    index: number;
    text: string;
    logprobs: TextLogprobs | null;
    finish_reason: 'stop' | 'length' | null;
  }[];
  usage?: Usage | null;
}

/**
 * Starts an answer. Calls run one at a time, in order.
 *
 * With `stream: true` the promise resolves to chunks when the call's turn has come; leaving the loop early
 * stops the answer. Otherwise it resolves to the whole answer.
 *
 * Aborting `signal` ends the call with an `RlxError` of code `cancelled` (its `name` is
 * `AbortError`, as usual on the web): chunks already received stay valid, and `error.text` has the
 * text so far. The next call works, and reuses the beginning that both have in common.
 */
export interface Create<Request, Whole, Chunk> {
  (request: Request & { stream: true }, options?: CallOptions): Promise<AsyncIterableIterator<Chunk>>;
  (request: Request & { stream?: false | null | undefined }, options?: CallOptions): Promise<Whole>;
  (request: Request, options?: CallOptions): Promise<Whole | AsyncIterableIterator<Chunk>>;
}

/** `engine.chat.completions`. */
export interface Completions {
  create: Create<ChatRequest, ChatCompletion, ChatCompletionChunk>;
}

/** `engine.completions`. */
export interface TextCompletions {
  create: Create<TextRequest, TextCompletion, TextChunk>;
}

/** A request to `embedder.embeddings.create`. */
export interface EmbeddingRequest {
  /** A text or several. */
  input: string | readonly string[];
  /** Ignored: an embedder has one model. */
  model?: string | undefined;
  /** How vectors are given: numbers, or the bytes of little-endian f32 in base64. Default `float`. */
  encoding_format?: 'float' | 'base64' | null | undefined;
  /** Ignored. */
  user?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** Vectors of texts. */
export interface EmbeddingList<Vector = number[]> {
  object: 'list';
  data: { object: 'embedding'; index: number; embedding: Vector }[];
  model: string;
  usage: { prompt_tokens: number; total_tokens: number };
}
