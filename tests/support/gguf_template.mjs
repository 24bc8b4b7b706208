// A model file with another chat template.

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
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(filled.length));
  return Buffer.concat([file.subarray(0, at), length, filled, file.subarray(at + 8 + old)]);
}
