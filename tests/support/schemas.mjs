// Fifty JSON schemas whose texts have an end: what a model that writes at random can still fill in.

const text = (maxLength = 12) => ({ type: 'string', maxLength });
const int = (minimum = 0, maximum = 999) => ({ type: 'integer', minimum, maximum });
const choice = (...values) => ({ enum: values });
const list = (items, maxItems = 3, minItems = 0) => ({ type: 'array', items, minItems, maxItems });
/** An object of these properties, of which those with a `?` may be missing. */
function object(properties) {
  const entries = Object.entries(properties).map(([key, schema]) => [key.replace('?', ''), schema]);
  return {
    type: 'object',
    properties: Object.fromEntries(entries),
    required: Object.keys(properties).filter((key) => !key.endsWith('?')),
    additionalProperties: false,
  };
}

const point = object({ x: int(-90, 90), y: int(-180, 180) });
const tree = { $ref: '#/$defs/node', $defs: { node: object({ name: choice('a', 'b', 'c'), 'left?': { anyOf: [{ type: 'null' }, object({ leaf: int(0, 9) })] } }) } };

export const SCHEMAS = [
  text(1), text(40), { type: 'string', minLength: 3, maxLength: 5 }, { type: 'string', pattern: '^[A-Z]{2}-[0-9]{3}$' },
  { type: 'string', format: 'date' }, { type: 'string', pattern: '^[0-2][0-9]:[0-5][0-9]$' }, { type: 'string', format: 'uuid' }, { type: 'string', format: 'ipv4' },
  int(), int(-5, -1), int(1, 1), int(-1000, 1000), { type: 'boolean' }, { type: 'null' },
  choice('red', 'green', 'blue'), choice(1, 2.5, null, 'x', true), { const: { a: [1, 'b'] } }, choice('ü', '日本', '"quoted"', '\\', '🦀'),
  list(int()), list(text(6), 4, 2), list({ type: 'boolean' }, 8, 8), list(list(int(0, 9), 2), 2), list(choice('a', 'b'), 5, 1),
  { type: 'array', prefixItems: [int(), text(5), { type: 'boolean' }], minItems: 3, maxItems: 3, items: false },
  object({}), object({ a: int() }), object({ 'a?': int() }), object({ 'a?': int(), 'b?': text(), 'c?': { type: 'boolean' } }), point,
  object({ name: text(20), age: int(0, 150) }), object({ title: text(30), tags: list(choice('new', 'old'), 3), done: { type: 'boolean' } }),
  object({ place: point, 'note?': text(15) }), object({ points: list(point, 2, 1) }), object({ deep: object({ deeper: object({ deepest: int(0, 9) }) }) }),
  object({ 'with space': int(), 'ünï': text(4), '"quote"': { type: 'null' } }),
  { anyOf: [int(), text(5)] }, { anyOf: [object({ kind: { const: 'a' }, n: int() }), object({ kind: { const: 'b' }, s: text(8) })] },
  { oneOf: [{ type: 'boolean' }, { type: 'null' }] }, { allOf: [{ type: 'object', properties: { a: int() }, required: ['a'] }, object({ a: int(5, 7) })] },
  { type: ['integer', 'null'], minimum: 0, maximum: 99 }, { type: ['string', 'boolean'], maxLength: 4 },
  tree, { $ref: '#/$defs/p', $defs: { p: point } }, object({ who: { $ref: '#/$defs/who' }, $schema: text(2) }),
  object({ city: text(15), unit: choice('celsius', 'fahrenheit'), 'days?': int(1, 7) }),
  object({ answer: choice('yes', 'no', 'maybe'), confidence: int(0, 100), 'why?': text(30) }),
  object({ email: { type: 'string', pattern: '^[a-z]{1,8}@[a-z]{1,8}\\.(com|org)$' } }),
  object({ id: { type: 'string', format: 'uuid' }, at: { type: 'string', format: 'date' } }),
  object({ rows: list(object({ k: choice('a', 'b'), v: int(0, 9) }), 3, 1), total: int() }),
  object({ a: { anyOf: [{ type: 'null' }, list(int(0, 9), 2)] }, b: { const: 'fixed' } }),
];
SCHEMAS[43].$defs = { who: object({ first: text(6), 'last?': text(6) }) };
