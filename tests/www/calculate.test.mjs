// The demo's arithmetic, as a model writes it, and what is none.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { calculate, NotCalculated } = await load('functions/calculate.ts');

test('expressions have their values', () => {
  for (const [expression, value] of [
    ['1', '1'],
    [' ( 3 + 4 ) * 2 ', '14'],
    ['2 + 3 * 4 - 6 / 4', '12.5'],
    ['7 − 2 × 3 ÷ 4', '5.5'],
    ['2 ^ 3 ^ 2', '512'],
    ['2 ** -1', '0.5'],
    ['-2 ^ 2', '-4'],
    ['(-2) ^ 2', '4'],
    ['--3 - -4', '7'],
    ['0.1 + 0.2', '0.3'],
    ['1_000_000 / 8', '125000'],
    ['1.5e3 + .5', '1500.5'],
    ['17 % 5', '2'],
    ['-1 % 3', '2'],
    ['15% * 80', '12'],
    ['200 * 15%', '30'],
    ['200 + 10%', '200.1'],
    ['5! / 3!', '20'],
    ['sqrt(2) * √2', '2'],
    ['Math.sqrt(16) + Math.PI - pi', '4'],
    ['max(1, 5; 3) + min(2, 8)', '7'],
    ['log(100) + log(8, 2) + ln(e)', '6'],
    ['round(2.34567, 2) + floor(-0.5)', '1.35'],
    ['pow(2, 10) - mod(7, 4)', '1021'],
    ['9007199254740991', '9007199254740991'],
    ['123456789 * 987654321', 'about 1.21932631112635e+17'],
    ['170!', 'about 7.25741561530799e+306'],
    ['1 / 3', '0.333333333333333'],
    ['0 * -1', '0'],
  ])
    assert.equal(calculate(expression), value, expression);
});

test('what is no expression, or has no value, is refused with a sentence', () => {
  for (const [expression, sentence] of [
    ['', /empty/],
    ['1 +', /number is missing at character 4/],
    ['2 (3)', /“\(” at character 3/],
    ['(1 + 2', /“\)” is missing/],
    ['1 + 2)', /“\)” at character 6/],
    ['1 / 0', /divided by zero/],
    ['sqrt(-1)', /not a real number/],
    ['10 ^ 400', /too large/],
    ['171!', /from 0 to 170/],
    ['0.5!', /whole number/],
    ['constructor(1)', /“constructor” is not known/],
    ['__proto__', /not known/],
    ['alert(1)', /“alert” is not known.*sqrt/],
    ['globalThis', /not known/],
    ['sin', /“sin” is not known/],
    ['1; 2', /“;”/],
    ['`1`', /number is missing/],
    ['1'.repeat(501), /at most 500 characters/],
    ['('.repeat(400), /inside each other/],
    ['-'.repeat(400) + '1', /inside each other/],
    [`${'2^'.repeat(200)}2`, /inside each other/],
    ['√'.repeat(400) + '1', /inside each other/],
  ])
    assert.throws(
      () => calculate(expression),
      (error) => error instanceof NotCalculated && sentence.test(error.message),
      expression.slice(0, 40),
    );
});
