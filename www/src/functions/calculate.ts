/** Arithmetic: a text with numbers, operators and the usual functions. Nothing of it is run as a script. */

const LONGEST = 500;
/** Parentheses, signs and powers inside each other, at most. */
const DEPTH = 50;

/** What is wrong with an expression, as a sentence for who wrote it. */
export class NotCalculated extends Error {}

const CONSTANTS = new Map([
  ['pi', Math.PI],
  ['π', Math.PI],
  ['tau', 2 * Math.PI],
  ['e', Math.E],
]);

const FUNCTIONS = new Map<string, (...numbers: number[]) => number>([
  ...(
    [
      'abs',
      'acos',
      'asin',
      'atan',
      'cbrt',
      'ceil',
      'cos',
      'exp',
      'floor',
      'log10',
      'log2',
      'sign',
      'sin',
      'sqrt',
      'tan',
    ] as const
  ).map((name): [string, (x: number) => number] => [name, (x) => Math[name](x)]),
  ['ln', (x) => Math.log(x)],
  ['log', (x, base) => (base === undefined ? Math.log10(x) : Math.log(x) / Math.log(base))],
  ['round', (x, digits = 0) => (digits === 0 ? Math.round(x) : Number(x.toFixed(Math.min(20, Math.max(0, digits)))))],
  ['pow', (x, y = NaN) => x ** y],
  ['mod', remainder],
  ['min', Math.min],
  ['max', Math.max],
]);

/** A remainder as mathematics has it: of the divisor's sign. */
function remainder(x: number, y = NaN): number {
  return x - y * Math.floor(x / y);
}

function factorial(n: number): number {
  if (!Number.isInteger(n) || n < 0 || n > 170)
    throw new NotCalculated('A factorial is of a whole number from 0 to 170.');
  let product = 1;
  for (let i = 2; i <= n; i += 1) product *= i;
  return product;
}

/** The value of an expression, in digits. */
export function calculate(expression: string): string {
  if (expression.trim() === '') throw new NotCalculated('The expression is empty.');
  if (expression.length > LONGEST) throw new NotCalculated(`An expression has at most ${LONGEST} characters.`);
  const value = new Parser(expression).all();
  if (Number.isNaN(value)) throw new NotCalculated('The result is not a real number.');
  if (!Number.isFinite(value)) throw new NotCalculated('The result is too large, or something is divided by zero.');
  return digits(value);
}

/** What is sure of a number: 15 digits, so that 0.1 + 0.2 is 0.3; as a power of ten where there would be more. */
function digits(value: number): string {
  const sure = value.toPrecision(15);
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER) return `about ${Number(sure).toExponential()}`;
  return String(Number.isSafeInteger(value) ? value : Number(sure));
}

class Parser {
  #at = 0;
  #depth = 0;

  constructor(private readonly text: string) {}

  all(): number {
    const value = this.#sum();
    const rest = this.#match(/\S/y);
    if (rest !== undefined) throw new NotCalculated(`“${rest}” at character ${this.#at} is not understood.`);
    return value;
  }

  /** What stands here, which is then behind; blanks before it too. */
  #match(pattern: RegExp): string | undefined {
    while (/\s/.test(this.text[this.#at] ?? '')) this.#at += 1;
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #inside<T>(work: () => T): T {
    this.#depth += 1;
    if (this.#depth > DEPTH)
      throw new NotCalculated(`More than ${DEPTH} parts of the expression are inside each other.`);
    const value = work();
    this.#depth -= 1;
    return value;
  }

  #sum(): number {
    let value = this.#product();
    for (;;) {
      const sign = this.#match(/[-+−–]/y);
      if (sign === undefined) return value;
      const next = this.#product();
      value = sign === '+' ? value + next : value - next;
    }
  }

  #product(): number {
    let value = this.#signed();
    for (;;) {
      // A percent sign before another number asks for the remainder.
      const operator = this.#match(/\*(?!\*)|[×·/÷]|%(?=\s*[\w.(π])/uy);
      if (operator === undefined) return value;
      const next = this.#signed();
      if ('/÷'.includes(operator)) value /= next;
      else if (operator === '%') value = remainder(value, next);
      else value *= next;
    }
  }

  #signed(): number {
    const sign = this.#match(/[-+−–]/y);
    if (sign === undefined) return this.#power();
    const value = this.#inside(() => this.#signed());
    return sign === '+' ? value : -value;
  }

  /** From the right: 2 ^ 3 ^ 2 is 2 ^ 9; -2 ^ 2 is -4. */
  #power(): number {
    const base = this.#behind();
    return this.#match(/\^|\*\*/y) === undefined ? base : base ** this.#inside(() => this.#signed());
  }

  #behind(): number {
    let value = this.#value();
    for (;;) {
      const sign = this.#match(/!|%(?!\s*[\w.(π])/uy);
      if (sign === undefined) return value;
      value = sign === '!' ? factorial(value) : value / 100;
    }
  }

  #value(): number {
    const number = this.#match(/(\d+(?:_\d+)*\.?\d*|\.\d+)([eE][-+]?\d+)?/y);
    if (number !== undefined) return Number(number.replaceAll('_', ''));
    if (this.#match(/\(/y) !== undefined) return this.#inside(() => this.#list()[0]!);
    if (this.#match(/√/y) !== undefined) return Math.sqrt(this.#inside(() => this.#behind()));
    const name = this.#match(/(?:Math\.)?[A-Za-z_π]\w*/uy);
    if (name === undefined) throw new NotCalculated(`A number is missing at character ${this.#at + 1}.`);
    const known = name.replace(/^Math\./, '').toLowerCase();
    const constant = CONSTANTS.get(known);
    if (constant !== undefined) return constant;
    const called = FUNCTIONS.get(known);
    if (!called || this.#match(/\(/y) === undefined)
      throw new NotCalculated(
        `“${name.slice(0, 30)}” is not known. Functions are ${[...FUNCTIONS.keys()].join(', ')}.`,
      );
    return called(...this.#inside(() => this.#list(', ')));
  }

  /** Values up to the parenthesis that ends them, one if there is nothing that may stand between. */
  #list(between = ''): number[] {
    const values = [this.#sum()];
    while (between !== '' && this.#match(/[,;]/y) !== undefined) values.push(this.#sum());
    if (this.#match(/\)/y) === undefined) throw new NotCalculated(`A “)” is missing at character ${this.#at + 1}.`);
    return values;
  }
}
