// Model files with other chat templates.

const STRING = 8;
const ARRAY = 9;

const number = (bytes, value) => {
  const out = Buffer.alloc(bytes);
  if (bytes === 8) out.writeBigUInt64LE(BigInt(value));
  else out.writeUInt32LE(value);
  return out;
};
const string = (text) => Buffer.concat([number(8, Buffer.byteLength(text)), Buffer.from(text)]);

/**
 * The bytes of a GGUF file with `template` in place of its own. What follows in the file keeps its
 * alignment, for the template is filled up with blanks.
 */
export function withTemplate(file, template) {
  const key = Buffer.from('tokenizer.chat_template');
  // Behind the key: the type, four bytes, and the length, eight.
  const at = file.indexOf(key) + key.length + 4;
  if (at < key.length + 4) throw new Error('the file has no chat template');
  const old = Number(file.readBigUInt64LE(at));
  const text = Buffer.from(template);
  const filled = Buffer.concat([text, Buffer.alloc((((old - text.length) % 32) + 32) % 32, ' ')]);
  return Buffer.concat([file.subarray(0, at), number(8, filled.length), filled, file.subarray(at + 8 + old)]);
}

/** The same with named templates beside its own, as llama.cpp's converter writes them. */
export function withNamedTemplates(file, templates) {
  const names = Object.keys(templates);
  const list = [string('tokenizer.chat_templates'), number(4, ARRAY), number(4, STRING), number(8, names.length), ...names.map(string)];
  const entries = (blanks) => Object.entries(templates).flatMap(([name, text], i) =>
    [string(`tokenizer.chat_template.${name}`), number(4, STRING), string(i === 0 ? text + ' '.repeat(blanks) : text)]);
  const length = Buffer.concat([...list, ...entries(0)]).length;
  const more = Buffer.concat([...list, ...entries((32 - (length % 32)) % 32)]);
  // The file begins with a magic, its version, and the numbers of tensors and keys.
  const keys = number(8, Number(file.readBigUInt64LE(16)) + 1 + names.length);
  return Buffer.concat([file.subarray(0, 16), keys, more, file.subarray(24)]);
}
