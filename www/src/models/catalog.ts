/**
 * A short list of checkpoints that run here: files of 4 bits a weight of the Hugging Face Hub. Nothing is asked of the
 * Hub before somebody loads one or asks whether it fits.
 */

export interface Entry {
  name: string;
  /** What `Engine.load` takes. */
  id: string;
  parameters: string;
  /** Bytes to download, about. */
  bytes: number;
  license: string;
  /** It calls functions: its chat template takes them. */
  calls?: true;
  /** What it is good for. */
  about: string;
}

export const CATALOG: readonly Entry[] = [
  {
    name: 'SmolLM2 135M Instruct',
    id: 'hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M',
    parameters: '135 million',
    bytes: 105e6,
    license: 'Apache 2.0',
    about: 'The smallest that chats. Fast without a GPU.',
  },
  {
    name: 'LFM2 350M',
    id: 'hf:LiquidAI/LFM2-350M-GGUF:Q4_K_M',
    parameters: '350 million',
    bytes: 229e6,
    license: 'LFM Open License 1.0',
    about: 'Convolutions and attention, eight languages.',
  },
  {
    name: 'SmolLM2 360M Instruct',
    id: 'hf:bartowski/SmolLM2-360M-Instruct-GGUF:Q4_K_M',
    parameters: '360 million',
    bytes: 271e6,
    license: 'Apache 2.0',
    about: 'Short answers in English.',
  },
  {
    name: 'Qwen3 0.6B',
    id: 'hf:unsloth/Qwen3-0.6B-GGUF:Q4_K_M',
    parameters: '600 million',
    bytes: 397e6,
    license: 'Apache 2.0',
    calls: true,
    about: 'Thinks before it answers, uses functions, many languages.',
  },
  {
    name: 'Gemma 3 1B',
    id: 'hf:ggml-org/gemma-3-1b-it-GGUF:Q4_K_M',
    parameters: '1 billion',
    bytes: 806e6,
    license: 'Gemma Terms of Use',
    about: 'Good at text, many languages. Wants a GPU.',
  },
  {
    name: 'Llama 3.2 1B Instruct',
    id: 'hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M',
    parameters: '1.2 billion',
    bytes: 808e6,
    license: 'Llama 3.2 Community License',
    calls: true,
    about: 'A good all-rounder, uses functions. Wants a GPU.',
  },
];
